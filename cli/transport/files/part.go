package files

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"

	"ringcli/configs/codes"
)

// Suffix is that of a file that is not whole. The next copy to the same name goes on with it.
const Suffix = ".ringcli-part"

// part is a file that is not whole: nobody else writes to it.
type part struct {
	*os.File
	root *os.Root
	name string // of the whole file
}

// openPart opens the part of a file, or makes it.
func openPart(root *os.Root, name string) (*part, error) {
	if info, err := root.Stat(name); err == nil && !info.Mode().IsRegular() {
		return nil, fmt.Errorf("%s is no regular file", name)
	} else if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for {
		if info, err := root.Lstat(name + Suffix); err == nil && !info.Mode().IsRegular() {
			return nil, fmt.Errorf("%s%s is no regular file", name, Suffix) // the root would follow a symbolic link
		}
		f, err := root.OpenFile(name+Suffix, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
		if err != nil {
			return nil, err
		}
		p := &part{f, root, name}
		if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
			err = codes.With(codes.Busy, fmt.Errorf("%s: another copy writes to it: wait until that has ended", name))
			return nil, errors.Join(err, f.Close())
		}
		// Whoever had it may have made it whole meanwhile.
		own, err := f.Stat()
		if err != nil {
			return nil, errors.Join(err, f.Close())
		}
		if there, err := root.Lstat(name + Suffix); err == nil && os.SameFile(own, there) {
			if !own.Mode().IsRegular() {
				return nil, errors.Join(fmt.Errorf("%s%s is no regular file", name, Suffix), f.Close())
			}
			return p, nil
		}
		if err := f.Close(); err != nil {
			return nil, err
		}
	}
}

// restart forgets what there is beyond an offset.
func (p *part) restart(offset int64) error {
	if err := p.Truncate(offset); err != nil {
		return err
	}
	_, err := p.Seek(offset, io.SeekStart)
	return err
}

// whole makes it the file, once its bytes are on the disk.
func (p *part) whole(mode fs.FileMode) error {
	err := p.Chmod(mode.Perm())
	if err == nil {
		err = p.Sync()
	}
	if err == nil {
		err = p.root.Rename(p.name+Suffix, p.name)
	}
	return err
}

// remove gives it up.
func (p *part) remove() error { return p.root.Remove(p.name + Suffix) }
