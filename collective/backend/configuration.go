package backend

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"
)

// Configuration is how the vendors' libraries are to work: RCCLConfig of the specification
// of RCCL's back end, whose names these are. If neither of its two algorithms is asked for,
// the library chooses.
type Configuration struct {
	UseRingAllReduce   bool   // all-reduce round the ring
	UseTreeAllReduce   bool   // all-reduce by trees
	TreeThresholdBytes uint64 // the longest vector that goes by the tree, if both may be used
	NumChannels        int    // 1 leaves the number to the library
	EnableDebug        bool   // INFO, else WARN
	BufferSize         uint64 // bytes of a channel's buffer
	// Log gets what the libraries print of themselves, which else is on standard output, among
	// the results; nil leaves it there.
	Log io.Writer
}

// Variable is an environment variable of the vendors' libraries.
type Variable struct {
	Name, Value string
	// Theirs tells whether an operator has set it, to Value, which stays.
	Theirs bool
	Reads  string // who reads it, and what it cannot say
}

// Variables are what the configuration comes to in the environment of a library. The
// specification's RCCL_* are written as it has them, and beside them those that the
// libraries read (NVIDIA/nccl src/debug.cc, src/init.cc, src/graph/connect.cc,
// src/graph/tuning.cc; RCCL has them from there).
func (c *Configuration) Variables() (list []Variable) {
	add := func(name, value, reads string) {
		theirs, set := os.LookupEnv(name)
		if set {
			value = theirs
		}
		list = append(list, Variable{name, value, set, reads})
	}
	const byName = "the specification's; the libraries read its NCCL_ twin"
	level := "WARN"
	if c.EnableDebug {
		level = "INFO"
	}
	buffer := strconv.FormatUint(c.BufferSize, 10)
	add("RCCL_DEBUG", level, byName)
	add("NCCL_DEBUG", level, "both libraries")
	add("RCCL_BUFFSIZE", buffer, byName)
	add("NCCL_BUFFSIZE", buffer, "both libraries, for their protocol Simple")
	if c.NumChannels > 1 {
		channels := strconv.Itoa(c.NumChannels)
		add("RCCL_NCHANNELS", channels, "the specification's; the libraries read the two below")
		add("NCCL_MIN_NCHANNELS", channels, "both libraries")
		add("NCCL_MAX_NCHANNELS", channels, "both libraries")
	}
	if value, reads := c.algorithm(); value != "" {
		add("NCCL_ALGO", value, reads)
	}
	if c.UseTreeAllReduce && c.UseRingAllReduce {
		add("NCCL_TREE_THRESHOLD", strconv.FormatUint(c.TreeThresholdBytes, 10), "NCCL 2.4 alone; later ones and RCCL weigh ring and tree by their own estimate")
	}
	return list
}

// algorithm is NCCL_ALGO for what is asked of all-reduce; "" leaves it to the library. It is
// read for all operations, and one that has none of its algorithms fails: newer libraries
// can be told those of all-reduce alone, in words by which older ones know no algorithm.
func (c *Configuration) algorithm() (value, reads string) {
	const all = "both libraries, for every operation"
	switch ring, tree := c.UseRingAllReduce, c.UseTreeAllReduce; {
	case ring && tree:
		return "Ring,Tree", all + "; which of them is the library's choice"
	case tree:
		return "Tree,Ring", all + "; the ring is what all others than all-reduce have, so the tree alone cannot be asked for"
	case ring:
		return "Ring", all
	}
	return "", ""
}

// applying is held while the environment is written, which is once: libraries keep what they
// have read.
var applying struct {
	sync.Mutex
	done bool
	pipe *os.File // open as long as the process is
}

// apply writes the variables that nobody has set into the C library's environment.
func (c *Configuration) apply() error {
	applying.Lock()
	defer applying.Unlock()
	if applying.done {
		return nil
	}
	for _, v := range c.Variables() {
		if v.Theirs {
			continue
		}
		if err := setenv(v.Name, v.Value); err != nil {
			return err
		}
	}
	applying.done = true
	return c.redirect()
}

// logFile is the variable that names the file for what the libraries print (src/debug.cc).
const logFile = "NCCL_DEBUG_FILE"

// redirect has the libraries print into a pipe, from which lines are copied to the log while
// the process lives: they open the file by its name, and would cut a regular one.
func (c *Configuration) redirect() error {
	if _, theirs := os.LookupEnv(logFile); theirs || c.Log == nil {
		return nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	applying.pipe = write
	go func() { _, _ = io.Copy(c.Log, read) }()
	return setenv(logFile, fmt.Sprintf("/proc/self/fd/%d", write.Fd()))
}

// pathOf returns the file that a library was loaded from: the first mapping whose name
// begins as the soname does.
func pathOf(soname string) string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return soname
	}
	for line := range strings.Lines(string(maps)) {
		if i := strings.IndexByte(line, '/'); i >= 0 {
			path := strings.TrimSpace(line[i:])
			if base := path[strings.LastIndexByte(path, '/')+1:]; strings.HasPrefix(base, soname) {
				return path
			}
		}
	}
	return soname
}
