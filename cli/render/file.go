package render

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"ringcli/cli/exit"
)

// CheckReplaceable refuses to put a file in the place of what is none, such as
// /dev/stdout: whoever is root would lose it.
func CheckReplaceable(what, path string) error {
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return exit.Usagef("%s %s: it is there and no regular file: expected the name of a file to write", what, path)
	}
	return nil
}

// CheckWritable refuses a file that cannot be written, before there is anything to write.
func CheckWritable(what, path string) error {
	if err := CheckReplaceable(what, path); err != nil {
		return err
	}
	f, err := CreateFile(path)
	if err == nil {
		err = f.Close()
	}
	if err != nil {
		return exit.Usagef("%s %s: %w: expected a file in a folder that can be written", what, path, err)
	}
	return nil
}

// File is a file that takes its place under its name when it is whole, and not before.
// A nil File does nothing.
type File struct {
	Path string
	temp *os.File // in the same folder; nil once it is in place
}

// CreateFile makes sure that a file can be written.
func CreateFile(path string) (*File, error) {
	temp, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return nil, err
	}
	return &File{path, temp}, nil
}

// Put writes the file, for others to read, and gives it its name.
func (f *File) Put(write func(io.Writer) error) error {
	err := errors.Join(write(f.temp), f.temp.Chmod(0o644), f.temp.Sync(), f.temp.Close())
	if err == nil {
		err = os.Rename(f.temp.Name(), f.Path)
	}
	if err == nil {
		f.temp = nil
	}
	return err
}

// Close removes what did not get its name.
func (f *File) Close() error {
	if f == nil || f.temp == nil {
		return nil
	}
	// It may be closed already.
	_ = f.temp.Close()
	return os.Remove(f.temp.Name())
}

// WriteFile writes a file whole or not at all. what is named in an error.
func WriteFile(what, path string, write func(io.Writer) error) error {
	if err := CheckReplaceable(what, path); err != nil {
		return err
	}
	f, err := CreateFile(path)
	if err != nil {
		return fmt.Errorf("%s: %w: expected a directory that can be written to", what, err)
	}
	if err := errors.Join(f.Put(write), f.Close()); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}
