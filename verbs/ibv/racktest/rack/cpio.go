package rack

import (
	"fmt"
	"io"
)

// cpio writes an archive as the kernel unpacks it into its first root: the "newc"
// format of Documentation/driver-api/early-userspace/buffer-format.rst.
type cpio struct {
	w    io.Writer
	n    int64 // bytes written
	node int   // the last file's number
	err  error // the first; later calls do nothing
}

// The kinds of file that an initramfs of ours has, as in inode(7).
const (
	cpioDir     = 0o040000
	cpioFile    = 0o100000
	cpioCharDev = 0o020000
)

func (c *cpio) write(b []byte) {
	if c.err != nil {
		return
	}
	var n int
	n, c.err = c.w.Write(b)
	c.n += int64(n)
}

// pad fills up to the next multiple of four, at which headers and contents begin.
func (c *cpio) pad() {
	c.write(make([]byte, -c.n&3))
}

// entry writes one file: mode is its kind and permissions, major and minor a
// device's number.
func (c *cpio) entry(name string, mode, major, minor int, content []byte) {
	c.node++
	c.header(c.node, name, mode, major, minor, len(content))
	c.write(content)
	c.pad()
}

func (c *cpio) header(node int, name string, mode, major, minor, size int) {
	// magic, then ino, mode, uid, gid, nlink, mtime, filesize, major and minor of
	// the file's device, of its own if it is one, namesize, check.
	c.write(fmt.Appendf(nil, "070701%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X%08X",
		node, mode, 0, 0, 1, 0, size, 0, 0, major, minor, len(name)+1, 0))
	c.write(append([]byte(name), 0))
	c.pad()
}

// close writes the trailer and returns the first error of all.
func (c *cpio) close() error {
	c.header(0, "TRAILER!!!", 0, 0, 0, 0)
	return c.err
}
