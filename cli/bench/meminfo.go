package bench

import (
	"fmt"
	"math/bits"
	"os"
	"strings"

	"ringcli/cli/exit"
	"ringcli/configs"
	"ringcli/configs/codes"
)

// availableMemory returns what the machine can still give without swapping
// (MemAvailable of /proc/meminfo, proc(5)), in bytes. False if it does not say.
func availableMemory() (bytes uint64, known bool) {
	text, err := os.ReadFile("/proc/meminfo")
	if _, after, found := strings.Cut(string(text), "\nMemAvailable:"); found && err == nil {
		_, err = fmt.Sscan(after, &bytes)
		return bytes << 10, err == nil
	}
	return 0, false
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
