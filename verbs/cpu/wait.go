package cpu

import (
	"os"
	"strconv"
	"strings"
)

// Waited is for how long the threads of this process have been ready to run and had
// no CPU, in nanoseconds; 0 where the kernel does not count. It takes some 100 us.
func Waited() (sum int64) {
	threads, err := os.ReadDir("/proc/self/task")
	if err != nil {
		return 0
	}
	for _, t := range threads {
		text, err := os.ReadFile("/proc/self/task/" + t.Name() + "/schedstat")
		if fields := strings.Fields(string(text)); err == nil && len(fields) > 1 {
			ns, _ := strconv.ParseInt(fields[1], 10, 64)
			sum += ns
		}
	}
	return sum
}
