package procfs

import (
	"fmt"
	"math/bits"
	"os"
	"sync"
	"time"

	"ringcli/cli/exit"
	"ringcli/configs"
	"ringcli/configs/codes"
)

// memoryAge is for how long a reading of the available memory serves: each of thousands of lines
// of a script is checked against it, and a reading costs more than all else of the check.
const memoryAge = 100 * time.Millisecond

// lastMemory is the last reading of the available memory.
var lastMemory struct {
	sync.Mutex
	at    time.Time
	bytes uint64
	known bool
}

// availableMemory is AvailableMemory of this machine, read ten times a second at most.
func availableMemory() (bytes uint64, known bool) {
	lastMemory.Lock()
	defer lastMemory.Unlock()
	if time.Since(lastMemory.at) >= memoryAge {
		lastMemory.bytes, lastMemory.known = AvailableMemory(os.DirFS("/"))
		lastMemory.at = time.Now()
	}
	return lastMemory.bytes, lastMemory.known
}

// CheckMemory refuses buffers that the machine cannot hold before anything is
// allocated: so many bytes each, so many per rank, so many ranks here.
func CheckMemory(bytes uint64, buffers, ranks int) error {
	available, known := availableMemory()
	if !known {
		return nil
	}
	high, need := bits.Mul64(bytes, uint64(buffers*ranks))
	if high == 0 && need <= available {
		return nil
	}
	return exit.Codedf(codes.Memory, "size %s: %d buffers of that size for each of %d ranks on this machine need more than the %s available: use a smaller --size or --count",
		configs.FormatSize(bytes), buffers, ranks, roughSize(available))
}

// roughSize writes a size for people: "23.1 GiB".
func roughSize(n uint64) string {
	for i, unit := range []string{"GiB", "MiB", "KiB"} {
		if size := uint64(1) << (30 - 10*i); n >= size {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(size), unit)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
