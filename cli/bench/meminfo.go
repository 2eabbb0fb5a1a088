package bench

import (
	"fmt"
	"math/bits"
	"os"

	"ringcli/cli/exit"
	"ringcli/cli/procfs"
	"ringcli/configs"
	"ringcli/configs/codes"
)

// CheckMemory refuses buffers that the machine cannot hold before anything is
// allocated: so many bytes each, so many per rank, so many ranks here.
func CheckMemory(bytes uint64, buffers, ranks int) error {
	available, known := procfs.AvailableMemory(os.DirFS("/"))
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
