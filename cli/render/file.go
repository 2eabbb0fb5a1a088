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

// WriteFile writes a file whole or not at all. what is named in an error.
func WriteFile(what, path string, write func(io.Writer) error) (err error) {
	if err := CheckReplaceable(what, path); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = fmt.Errorf("%s: %w", what, err)
		}
	}()
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+".*")
	if err != nil {
		return fmt.Errorf("%w: expected a directory that can be written to", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, os.Remove(f.Name()))
		}
	}()
	err = errors.Join(write(f), f.Chmod(0o644), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), path)
}
