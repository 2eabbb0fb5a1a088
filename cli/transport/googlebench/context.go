package googlebench

import (
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Context is where and when it was measured.
type Context struct {
	Date       time.Time
	HostName   string
	Executable string
	CPUs       int
	MHz        float64 // of a CPU; 0: not known
	Scaling    bool    // the CPUs change their frequency
	Caches     []Cache
	Load       []float64 // average, of 1, 5 and 15 minutes
	// Custom are what the program says besides: names and values.
	Custom [][2]string
}

// Cache is a cache of CPU 0.
type Cache struct {
	Type    string // Data, Instruction or Unified
	Level   int
	Size    int // bytes
	Sharing int // how many CPUs share one; 0: not known
}

// NewContext looks at the machine whose files these are: os.DirFS("/").
func NewContext(files fs.FS, now time.Time, host, executable string) Context {
	c := Context{Date: now, HostName: host, Executable: executable, CPUs: runtime.NumCPU(), MHz: math.Round(megahertz(files))}
	governors, _ := fs.Glob(files, "sys/devices/system/cpu/cpu[0-9]*/cpufreq/scaling_governor") // the pattern is right
	for _, g := range governors {
		c.Scaling = c.Scaling || text(files, g) != "performance"
	}
	for i := 0; ; i++ {
		dir := fmt.Sprintf("sys/devices/system/cpu/cpu0/cache/index%d", i)
		if _, err := fs.Stat(files, dir); err != nil {
			break
		}
		if cache, ok := cacheOf(files, dir); ok {
			c.Caches = append(c.Caches, cache)
		}
	}
	for i, field := range strings.Fields(text(files, "proc/loadavg")) {
		if load, err := strconv.ParseFloat(field, 64); err == nil && i < 3 {
			c.Load = append(c.Load, load)
		}
	}
	return c
}

func text(files fs.FS, name string) string {
	b, _ := fs.ReadFile(files, name) // what cannot be read is not known
	return strings.TrimSpace(string(b))
}

// megahertz is the most that a CPU has, or else what it has now.
func megahertz(files fs.FS) float64 {
	if kHz, err := strconv.ParseFloat(text(files, "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq"), 64); err == nil {
		return kHz / 1e3
	}
	for line := range strings.Lines(text(files, "proc/cpuinfo")) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "cpu MHz" {
			mhz, _ := strconv.ParseFloat(strings.TrimSpace(value), 64) // 0: not known
			return mhz
		}
	}
	return 0
}

func cacheOf(files fs.FS, dir string) (c Cache, ok bool) {
	size, err := strconv.Atoi(strings.TrimSuffix(text(files, path.Join(dir, "size")), "K"))
	if err != nil {
		return c, false
	}
	level, err := strconv.Atoi(text(files, path.Join(dir, "level")))
	if err != nil {
		return c, false
	}
	c = Cache{Type: text(files, path.Join(dir, "type")), Level: level, Size: size << 10}
	for word := range strings.FieldsFuncSeq(text(files, path.Join(dir, "shared_cpu_map")), func(r rune) bool { return r == ',' }) {
		if bits, err := strconv.ParseUint(word, 16, 32); err == nil {
			for ; bits > 0; bits &= bits - 1 {
				c.Sharing++
			}
		}
	}
	return c, true
}

// dateFormat is of ISO 8601, with the time zone's offset (timers.cc, LocalDateTimeString).
const dateFormat = "2006-01-02T15:04:05-07:00"

// print says what a table is of, to people.
func (c *Context) print(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\nRunning %s\nRun on (%d X %g MHz CPU %s)\n", c.Date.Format(dateFormat), c.Executable, c.CPUs, c.MHz, map[bool]string{true: "s"}[c.CPUs > 1])
	if len(c.Caches) > 0 {
		b.WriteString("CPU Caches:\n")
	}
	for _, cache := range c.Caches {
		fmt.Fprintf(&b, "  L%d %s %d KiB", cache.Level, cache.Type, cache.Size>>10)
		if cache.Sharing > 0 {
			fmt.Fprintf(&b, " (x%d)", c.CPUs/cache.Sharing)
		}
		b.WriteByte('\n')
	}
	if len(c.Load) > 0 {
		words := make([]string, len(c.Load))
		for i, load := range c.Load {
			words[i] = fmt.Sprintf("%.2f", load)
		}
		fmt.Fprintf(&b, "Load Average: %s\n", strings.Join(words, ", "))
	}
	for _, pair := range c.Custom {
		fmt.Fprintf(&b, "%s: %s\n", pair[0], pair[1])
	}
	if c.Scaling {
		b.WriteString("***WARNING*** CPU scaling is enabled, the benchmark real time measurements may be noisy and will incur extra overhead.\n")
	}
	_, err := io.WriteString(w, b.String())
	return err
}
