package report

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"time"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"ringcli/cli/report/redact"
)

// part is a file of the archive.
type part struct {
	name, what string
	read       func(context.Context) ([]byte, error)
}

// manifest tells what is in the archive, and what is not.
const manifest = "MANIFEST"

// archive is one that is being written: what is in it lies in a folder.
type archive struct {
	*redact.Redactor
	dir  string
	made time.Time
	zip  *gzip.Writer
	tar  *tar.Writer
	// The two tables of the manifest, and how many lines they have.
	files, out        bytes.Buffer
	packed, leftCount int
}

func newArchive(w io.Writer, dir string, made time.Time, secrets [][]byte) *archive {
	z := gzip.NewWriter(w)
	return &archive{Redactor: redact.New(secrets), dir: dir, made: made, zip: z, tar: tar.NewWriter(z)}
}

// put writes a file.
func (a *archive) put(name string, data []byte) error {
	h := &tar.Header{Name: path.Join(a.dir, name), Mode: 0o644, Size: int64(len(data)), ModTime: a.made, Format: tar.FormatPAX}
	if err := a.tar.WriteHeader(h); err != nil {
		return err
	}
	_, err := a.tar.Write(data)
	return err
}

func (a *archive) leave(name, format string, args ...any) {
	a.leftCount++
	fmt.Fprintf(&a.out, "%-24s %s\n", name, fmt.Sprintf(format, args...))
}

// add packs the parts. What cannot be had is told, and the rest goes on.
func (a *archive) add(ctx context.Context, parts []part) error {
	for _, p := range parts {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		data, err := p.read(ctx)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if err == nil && !utf8.Valid(data) {
			data, err = nil, errors.New("it is no text, in which secrets could be searched for: unpacked it may be")
		}
		if err != nil {
			reason, _ := a.Text([]byte(err.Error()))
			a.leave(p.name, "%s", reason)
		}
		if len(data) == 0 {
			continue
		}
		data, removed := a.Text(data)
		if len(removed) > 0 {
			a.leave(p.name, "%s", words(removed))
		}
		if err := a.put(p.name, data); err != nil {
			return err
		}
		a.packed++
		fmt.Fprintf(&a.files, "%-24s %9d  %s\n", p.name, len(data), p.what)
	}
	return nil
}

// close adds the manifest, under a first line.
func (a *archive) close(title string) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s\n\n%-24s %9s  %s\n%s\nLeft out:\n%s", title, "file", "bytes", "what it is", a.files.Bytes(), a.out.Bytes())
	fmt.Fprintf(&b, "%-24s always: the ring's token, the file that has it, and variables that do not begin with one of %v\n", "", stacks)
	fmt.Fprint(&b, "\nRules. [left out: RULE] replaces what a rule removed:\n")
	for _, r := range redact.Rules() {
		fmt.Fprintf(&b, "%-24s %s\n", r.Name, r.What)
	}
	return errors.Join(a.put(manifest, b.Bytes()), a.tar.Close(), a.zip.Close())
}

// adopt takes over what another rank has packed, in a folder of its own.
func (a *archive) adopt(dir string, packed []byte) error {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	for files := tar.NewReader(z); ; {
		h, err := files.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		data, errRead := []byte(nil), err
		if err == nil {
			data, errRead = io.ReadAll(files)
		}
		if errRead != nil {
			return fmt.Errorf("%s: %w", dir, errRead)
		}
		// Whatever a rank calls it, it stays in the rank's folder.
		if err := a.put(path.Join(dir, path.Clean("/"+h.Name)), data); err != nil {
			return err
		}
		a.packed++
	}
}

// mostBytes is the longest file that is packed.
const mostBytes = 64 << 20

// readFile reads a file that was named.
func readFile(name string) ([]byte, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|unix.O_NONBLOCK, 0) // which does not wait for who writes to a pipe
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	switch info, err := f.Stat(); {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, &fs.PathError{Op: "read", Path: name, Err: errors.New("expected a regular file")}
	case info.Size() > mostBytes:
		return nil, fmt.Errorf("%s has %d bytes: expected at most %d: pack it beside this", name, info.Size(), mostBytes)
	}
	return io.ReadAll(io.LimitReader(f, mostBytes))
}
