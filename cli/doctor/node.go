package doctor

import (
	"io/fs"
	"strconv"

	"ringcli/cli/procfs"
)

// machine is a node as its files show it, from the root on; symbolic links can be read.
type machine struct{ fs.FS }

// text, number and field are as package procfs has them.
func (m machine) text(path string) string           { return procfs.Text(m.FS, path) }
func (m machine) number(path string) (uint64, bool) { return procfs.Number(m.FS, path) }
func (m machine) field(path, key string) string     { return procfs.Field(m.FS, path, key) }

// list is the entries of a directory.
func (m machine) list(dir string) (names []string) {
	entries, _ := fs.ReadDir(m.FS, dir)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// exists tells whether there is a file.
func (m machine) exists(path string) bool {
	_, err := fs.Stat(m.FS, path)
	return err == nil
}

// capable tells whether this process has a capability.
func (m machine) capable(capability uint) bool {
	bits, _ := strconv.ParseUint(m.field("proc/self/status", "CapEff"), 16, 64)
	return bits&(1<<capability) != 0
}

// kernelDevices are those that the kernel has, whatever the library lists.
func (m machine) kernelDevices() []string { return m.list("sys/class/infiniband") }
