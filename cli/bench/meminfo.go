package bench

import (
	"bufio"
	"fmt"
	"math/bits"
	"os"
	"strconv"
	"strings"

	"ringcli/cli/exit"
	"ringcli/configs"
)

// availableMemory returns what the machine can still give without swapping
// (MemAvailable of /proc/meminfo, proc(5)), in bytes. False if it does not say.
func availableMemory() (uint64, bool) {
	f, err := os.Open("/proc/meminfo")
	if err != nil {
		return 0, false
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		fields := strings.Fields(lines.Text())
		if len(fields) == 3 && fields[0] == "MemAvailable:" {
			kib, err := strconv.ParseUint(fields[1], 10, 64)
			return kib << 10, err == nil
		}
	}
	return 0, false
}

// checkMemory refuses buffers that the machine cannot hold before anything is
// allocated: so many bytes each, so many per rank, so many ranks here.
func checkMemory(bytes uint64, buffers, ranks int) error {
	available, known := availableMemory()
	if !known {
		return nil
	}
	high, need := bits.Mul64(bytes, uint64(buffers*ranks))
	if high == 0 && need <= available {
		return nil
	}
	return exit.Usagef("size %s: %d buffers of that size for each of %d ranks on this machine need more than the %s available: use a smaller --size or --count",
		configs.FormatSize(bytes), buffers, ranks, roughSize(available))
}

// roughSize writes a size for people: "23.1 GiB".
func roughSize(n uint64) string {
	for _, u := range []struct {
		name  string
		bytes uint64
	}{{"GiB", 1 << 30}, {"MiB", 1 << 20}, {"KiB", 1 << 10}} {
		if n >= u.bytes {
			return fmt.Sprintf("%.1f %s", float64(n)/float64(u.bytes), u.name)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}
