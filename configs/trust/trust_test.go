package trust

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// stranger is a user that is neither root nor whoever runs the test.
const stranger = 54321

// place is a directory for a file, and how it comes to be untrusted.
type place struct {
	t   *testing.T
	dir string
}

func (p place) path(name string) string { return filepath.Join(p.dir, name) }

func (p place) check(errs ...error) {
	p.t.Helper()
	for _, err := range errs {
		if err != nil {
			p.t.Fatal(err)
		}
	}
}

// file writes a file of this user.
func (p place) file(name string, mode os.FileMode) string {
	p.t.Helper()
	path := p.path(name)
	p.check(os.WriteFile(path, []byte("content of "+name), 0o600), os.Chmod(path, mode))
	return path
}

// give makes something another user's, which root alone can.
func (p place) give(name string) {
	p.t.Helper()
	if os.Geteuid() != 0 {
		p.t.Skip("only root can give a file to another user")
	}
	p.check(os.Lchown(p.path(name), stranger, stranger))
}

func (p place) link(target, name string) { p.check(os.Symlink(target, p.path(name))) }

// sticky makes the directory as /tmp is.
func (p place) sticky() { p.check(os.Chmod(p.dir, 0o777|os.ModeSticky)) }

func TestWhoseFileIsRead(t *testing.T) {
	for name, c := range map[string]struct {
		make func(p place)
		path string // "f" if empty
		want error  // nil: it is read
	}{
		"own":                        {make: func(p place) { p.file("f", 0o644) }},
		"own, in a sticky directory": {make: func(p place) { p.file("f", 0o644); p.sticky() }},
		"own, by a link":             {make: func(p place) { p.file("g", 0o600); p.link("g", "f") }},
		"own, by links up and down": {make: func(p place) {
			p.check(os.MkdirAll(p.path("a/b"), 0o755))
			p.file("g", 0o600)
			p.link("a/b", "d")
			p.link("d/../../g", "f")
		}},
		"own, of several names":      {make: func(p place) { p.check(os.Link(p.file("g", 0o600), p.path("f"))) }},
		"missing":                    {make: func(place) {}, want: os.ErrNotExist},
		"a dangling link":            {make: func(p place) { p.link("g", "f") }, want: os.ErrNotExist},
		"group can write":            {make: func(p place) { p.file("f", 0o620) }, want: ErrUntrusted},
		"others can write":           {make: func(p place) { p.file("f", 0o602) }, want: ErrUntrusted},
		"group can write the target": {make: func(p place) { p.file("g", 0o660); p.link("g", "f") }, want: ErrUntrusted},
		"directory of a group":       {make: func(p place) { p.file("f", 0o600); p.check(os.Chmod(p.dir, 0o770)) }, want: ErrUntrusted},
		"directory of all":           {make: func(p place) { p.file("f", 0o600); p.check(os.Chmod(p.dir, 0o777)) }, want: ErrUntrusted},
		"several names in a sticky":  {make: func(p place) { p.check(os.Link(p.file("g", 0o600), p.path("f"))); p.sticky() }, want: ErrUntrusted},
		"a stranger's":               {make: func(p place) { p.file("f", 0o644); p.give("f") }, want: ErrUntrusted},
		"a stranger's, in a sticky":  {make: func(p place) { p.file("f", 0o644); p.sticky(); p.give("f") }, want: ErrUntrusted},
		"in a stranger's directory":  {make: func(p place) { p.file("f", 0o600); p.give(".") }, want: ErrUntrusted},
		"in a stranger's sticky":     {make: func(p place) { p.file("f", 0o600); p.sticky(); p.give(".") }, want: ErrUntrusted},
		"a stranger's link":          {make: func(p place) { p.file("g", 0o600); p.sticky(); p.link("g", "f"); p.give("f") }, want: ErrUntrusted},
		"a link to a stranger's":     {make: func(p place) { p.file("g", 0o644); p.give("g"); p.link("g", "f") }, want: ErrUntrusted},
		"a link into a stranger's": {make: func(p place) {
			p.check(os.Mkdir(p.path("d"), 0o755))
			p.file("d/g", 0o600)
			p.give("d")
			p.link("d/g", "f")
		}, want: ErrUntrusted},
		"a link that passes a strange": {make: func(p place) {
			p.check(os.Mkdir(p.path("d"), 0o755))
			p.file("g", 0o600)
			p.link("../g", "d/h")
			p.give("d")
			p.link("d/h", "f")
		}, want: ErrUntrusted},
		"the null device": {make: func(place) {}, path: os.DevNull},
	} {
		t.Run(name, func(t *testing.T) {
			p := place{t, t.TempDir()}
			c.make(p)
			path := c.path
			if path == "" {
				path = p.path("f")
			}
			text, err := ReadFile(path)
			if !errors.Is(err, c.want) || (c.want == nil) != (err == nil) {
				t.Fatalf("read with %v: expected %v", err, c.want)
			}
			if err == nil && path != os.DevNull && len(text) == 0 {
				t.Error("it was read as empty")
			}
			if err := CheckPlace(path); errors.Is(err, ErrUntrusted) != (c.want == ErrUntrusted) { //nolint:errorlint // of the table
				t.Errorf("as a place: %v", err)
			}
		})
	}
}

// A FIFO is refused, and does not block.
func TestAFIFO(t *testing.T) {
	path := filepath.Join(t.TempDir(), "fifo")
	if err := unix.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if text, err := ReadFile(path); err == nil {
		t.Errorf("it was read as %q", text)
	}
}

// What this process was given as a descriptor is read, whoever owns it.
func TestADescriptor(t *testing.T) {
	p := place{t, t.TempDir()}
	f, err := os.Open(p.file("f", 0o666))
	p.check(err)
	defer func() { _ = f.Close() }()
	for _, dir := range []string{"/proc/self/fd/", "/dev/fd/"} {
		if text, err := ReadFile(dir + strconv.Itoa(int(f.Fd()))); err != nil || string(text) != "content of f" {
			t.Errorf("%s: %q, %v", dir, text, err)
		}
	}
}

// A file that does not exist yet has the nearest directory's trust.
func TestAPlaceToCome(t *testing.T) {
	p := place{t, t.TempDir()}
	if err := CheckPlace(p.path("a/b/f")); err != nil {
		t.Error(err)
	}
	p.check(os.Mkdir(p.path("a"), 0o755))
	p.give("a")
	if err := CheckPlace(p.path("a/b/f")); !errors.Is(err, ErrUntrusted) {
		t.Errorf("in a stranger's directory: %v", err)
	}
}

// A ConfigMap of Kubernetes: a read-only mount of mode 0777, in which a link leads through
// another to the file.
func TestAReadOnlyMount(t *testing.T) {
	p := place{t, t.TempDir()}
	p.check(os.Mkdir(p.path("..2026_11_28"), 0o755))
	p.file("..2026_11_28/f", 0o644)
	p.link("..2026_11_28", "..data")
	p.link("..data/f", "f")
	p.check(os.Chmod(p.dir, 0o777))
	if _, err := ReadFile(p.path("f")); !errors.Is(err, ErrUntrusted) {
		t.Errorf("writable: %v", err)
	}
	var err error
	var wait sync.WaitGroup
	wait.Go(func() {
		runtime.LockOSThread() // which ends with the goroutine, and its mounts with it
		if err = unix.Unshare(unix.CLONE_NEWNS); err != nil {
			return
		}
		p.check(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""), unix.Mount(p.dir, p.dir, "", unix.MS_BIND, ""),
			unix.Mount("", p.dir, "", unix.MS_BIND|unix.MS_REMOUNT|unix.MS_RDONLY, ""))
		if text, err := ReadFile(p.path("f")); err != nil || len(text) == 0 {
			t.Errorf("read-only: %v", err)
		}
	})
	if wait.Wait(); err != nil {
		t.Skipf("no mount namespace of its own: %v", err)
	}
}
