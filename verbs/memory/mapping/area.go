package mapping

import (
	"bufio"
	"fmt"
	"os"
	"strings"
)

// area is one mapping of the process, as /proc/self/smaps has it.
type area struct {
	lo, hi uint64
	rights string // rwxp, of which the last is s of a shared one
	offset uint64 // of lo in the file
	file   string // device and inode, as the kernel writes them; "00:00 0" is none
	name   string // path, or what the kernel calls it
	flags  []string
}

// header reads the first line of a mapping: "lo-hi rights offset device inode name".
func (a *area) header(line string) bool {
	var device, inode string
	n, _ := fmt.Sscanf(line, "%x-%x %s %x %s %s", &a.lo, &a.hi, &a.rights, &a.offset, &device, &inode)
	if n < 6 || len(a.rights) != 4 {
		return false
	}
	a.file, a.name = device+" "+inode, ""
	// The name may have blanks; the columns before it have none.
	rest := line
	for range 5 {
		_, rest, _ = strings.Cut(strings.TrimLeft(rest, " "), " ")
	}
	a.name = strings.TrimLeft(rest, " ")
	return true
}

// areas returns what is mapped from lo to hi, in order, as far as it is without a hole.
func areas(lo, hi uint64) ([]area, error) {
	f, err := os.Open("/proc/self/smaps")
	if err != nil {
		return nil, fmt.Errorf("what lies there cannot be told: %w", err)
	}
	defer func() { _ = f.Close() }()
	var found []area
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		var a area
		if a.header(lines.Text()) {
			if a.lo >= hi {
				break
			}
			if a.hi > lo {
				found = append(found, a)
			}
		} else if list, ok := strings.CutPrefix(lines.Text(), "VmFlags:"); ok && len(found) > 0 {
			if last := &found[len(found)-1]; last.flags == nil {
				last.flags = strings.Fields(list)
			}
		}
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("what lies there cannot be told: /proc/self/smaps: %w", err)
	}
	next := lo
	for i := range found {
		if found[i].lo > next {
			found = found[:i]
			break
		}
		next = found[i].hi
	}
	if next < hi {
		return nil, fmt.Errorf("nothing is mapped at %#x: expected memory of this process", next)
	}
	return found, nil
}
