package cli

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/cli/exit"
	"ringcli/cli/transport/files"
)

// fileOf writes n bytes that are the same each time, and returns their SHA-256.
func fileOf(t *testing.T, path string, n int) string {
	t.Helper()
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o640)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.New()
	_, err = io.CopyN(io.MultiWriter(f, sum), rand.NewChaCha8([32]byte{1}), int64(n))
	if err = errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", sum.Sum(nil))
}

// sameFile tells whether two files have the same bytes and mode.
func sameFile(t *testing.T, a, b string) bool {
	t.Helper()
	var sums [2][]byte
	var modes [2]os.FileMode
	for i, path := range []string{a, b} {
		f, err := os.Open(path)
		if err != nil {
			t.Error(err)
			return false
		}
		info, err := f.Stat()
		sum := sha256.New()
		if err == nil {
			_, err = io.Copy(sum, f)
		}
		if err = errors.Join(err, f.Close()); err != nil {
			t.Error(err)
			return false
		}
		sums[i], modes[i] = sum.Sum(nil), info.Mode()
	}
	return bytes.Equal(sums[0], sums[1]) && modes[0] == modes[1]
}

// serves is a server of files and the command that copies to or from it.
func serves(t *testing.T, dir, flags string) (v *serving, command string) {
	t.Helper()
	v, first := served(t, flags+" --dir "+dir)
	if first["dir"] != dir {
		t.Errorf("%v", first)
	}
	_, port, _ := strings.Cut(v.host, ":")
	return v, "copy --output json --tcp-port " + port + " " + flags + " "
}

// Files of all sizes go both ways, over each device, with what scp knows of directories.
func TestCopy(t *testing.T) {
	for _, device := range []string{"shm", "soft:lo"} {
		here, there := t.TempDir(), t.TempDir()
		v, copies := serves(t, there, "--device "+device)
		if err := os.Mkdir(filepath.Join(there, "sub"), 0o700); err != nil {
			t.Fatal(err)
		}
		for i, size := range []int{0, 1, 1 << 20, 9<<20 + 4711} {
			source, name := filepath.Join(here, fmt.Sprint("f", i)), fmt.Sprint("f", i)
			sum := fileOf(t, source, size)
			to := []string{name, "sub/" + name, "sub", ""}[i]
			code, stdout, stderr := finish(t, words(copies+source+" 127.0.0.1:"+to)...)
			if code != exit.OK {
				t.Fatalf("%s, %d bytes: exit code %d: %s%s", device, size, code, stdout, stderr)
			}
			r := objects(t, stdout)[0]
			if r["sha256"] != sum || r["bytes"] != float64(size) || r["resumed"] != 0.0 || !strings.HasPrefix(fmt.Sprint(r["peer_device"]), strings.Split(device, ":")[0]) {
				t.Errorf("%s, %d bytes: %v", device, size, r)
			}
			stored := []string{name, "sub/" + name, "sub/" + name, name}[i]
			if !sameFile(t, source, filepath.Join(there, stored)) {
				t.Errorf("%s, %d bytes: the copy differs", device, size)
			}
			back := filepath.Join(here, "back")
			if err := os.MkdirAll(back, 0o700); err != nil {
				t.Fatal(err)
			}
			if code, stdout, stderr := finish(t, words(copies+"127.0.0.1:"+stored+" "+back)...); code != exit.OK {
				t.Fatalf("%s, %d bytes back: exit code %d: %s%s", device, size, code, stdout, stderr)
			}
			if !sameFile(t, source, filepath.Join(back, name)) {
				t.Errorf("%s, %d bytes: what came back differs", device, size)
			}
		}
		left, err := filepath.Glob(filepath.Join(there, "*"+files.Suffix))
		if err != nil || left != nil {
			t.Errorf("left behind: %q, %v", left, err)
		}
		v.stop(t)
	}
}

// A copy over a network that loses packets is killed at half; the next one goes on where it was,
// in both directions. One whose source has changed begins anew. RINGTEST_MATRIX=full takes 1 GiB.
func TestCopyResumes(t *testing.T) {
	here, there := t.TempDir(), t.TempDir()
	v, _ := served(t, "--device soft:lo --dir "+there)
	_, port, _ := strings.Cut(v.host, ":")
	size := 48 << 20
	if os.Getenv("RINGTEST_MATRIX") == "full" {
		size = 1 << 30
	}
	source := filepath.Join(here, "big")
	sum := fileOf(t, source, size)
	for _, down := range []bool{false, true} {
		from, to, part := source, "127.0.0.1:big", filepath.Join(there, "big"+files.Suffix)
		if down {
			from, to, part = "127.0.0.1:big", filepath.Join(here, "back"), filepath.Join(here, "back"+files.Suffix)
		}
		copies := []string{"copy", "--output", "json", "--device", "soft:lo", "--inject", "soft: loss 1%", "--tcp-port", port, from, to}
		begun := time.Now()
		p := launch(t, copies...)
		there := int64(0)
		for there < int64(size/2) {
			time.Sleep(time.Millisecond)
			if info, err := os.Stat(part); err == nil {
				there = info.Size()
			}
			if time.Since(begun) > hung {
				t.Fatalf("nothing is copied: %s", p.stderr.String())
			}
		}
		if err := p.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = p.Wait() // it is killed
		killed := time.Now()
		if r := v.next(t); r["ok"] != false {
			t.Errorf("the server of the copy that was killed: %v", r)
		}
		code, stdout, stderr := finish(t, copies...)
		if code != exit.OK {
			t.Fatalf("exit code %d: %s%s", code, stdout, stderr)
		}
		r := objects(t, stdout)[0]
		if resumed := r["resumed"].(float64); resumed < float64(size/2) || resumed >= float64(size) || r["sha256"] != sum {
			t.Errorf("%v: expected at least %d bytes of before", r, size/2)
		} else {
			t.Logf("killed after %.1f s, resumed at %.0f MB, done after %.1f s more", killed.Sub(begun).Seconds(), resumed/1e6, time.Since(killed).Seconds())
		}
		if r := v.next(t); r["ok"] != true {
			t.Errorf("the server: %v", r)
		}
	}
	if !sameFile(t, source, filepath.Join(here, "back")) {
		t.Error("what came back differs")
	}
	if err := os.WriteFile(filepath.Join(there, "new"+files.Suffix), bytes.Repeat([]byte{'x'}, 4711), 0o600); err != nil {
		t.Fatal(err)
	}
	code, stdout, stderr := finish(t, "copy", "--output", "json", "--device", "soft:lo", "--tcp-port", port, source, "127.0.0.1:new")
	if code != exit.OK || objects(t, stdout)[0]["resumed"] != 0.0 || !sameFile(t, source, filepath.Join(there, "new")) {
		t.Errorf("of another file: exit code %d: %s%s", code, stdout, stderr)
	}
	v.stop(t)
}

// Nothing outside of the directory is read or written, nothing without it, and what cannot be
// is said in time, by the end that knows.
func TestCopyRefused(t *testing.T) {
	here, there := t.TempDir(), t.TempDir()
	fileOf(t, filepath.Join(here, "f"), 10)
	fileOf(t, filepath.Join(filepath.Dir(there), "outside"), 10)
	for link, to := range map[string]string{"up": "..", "etc": "/etc"} {
		if err := os.Symlink(to, filepath.Join(there, link)); err != nil {
			t.Fatal(err)
		}
	}
	v, copies := serves(t, there, "--device shm")
	file := filepath.Join(here, "f")
	for args, want := range map[string]string{
		"127.0.0.1:../outside " + here:        "below the directory",
		"127.0.0.1:up/outside " + here:        "below the directory",
		"127.0.0.1:/etc/hostname " + here:     "below the directory",
		"127.0.0.1:etc/hostname " + here:      "below the directory",
		"127.0.0.1:none " + here:              "below the directory",
		file + " 127.0.0.1:../outside":        "below the directory",
		file + " 127.0.0.1:up/written":        "below the directory",
		file + " 127.0.0.1:/tmp/written":      "below the directory",
		file + " 127.0.0.1:none/f":            "below the directory",
		file + " " + here:                     "HOST:",
		"127.0.0.1:a 127.0.0.1:b":             "HOST:",
		file:                                  "1 arguments",
		file + " :f":                          "HOST",
		here + " 127.0.0.1:f":                 "no regular file",
		filepath.Join(here, "no") + " a:b":    "no such file",
		"127.0.0.1:f " + here + "/none/of/it": "no such file",
	} {
		code, stdout, stderr := finish(t, words(copies+args)...)
		if code != exit.Usage || !strings.Contains(stdout, want) || stderr != "" {
			t.Errorf("copy %s: exit code %d: %s%s: no %q", args, code, stdout, stderr, want)
		}
	}
	for _, path := range []string{filepath.Join(filepath.Dir(there), "written"), "/tmp/written"} {
		if _, err := os.Stat(path); err == nil {
			t.Errorf("%s was written", path)
		}
	}
	v.stop(t)

	v, _ = served(t, "--device shm")
	_, port, _ := strings.Cut(v.host, ":")
	code, stdout, _ := finish(t, words("copy --output json --device shm --tcp-port "+port+" "+file+" 127.0.0.1:f")...)
	if code != exit.Usage || !strings.Contains(stdout, "--dir DIR") {
		t.Errorf("without --dir: exit code %d: %s", code, stdout)
	}
	v.stop(t)
	for line, want := range map[string]string{
		"transport serve --dir " + here + "/none": "none", "transport serve --dir=": `--dir ""`, "transport bench --dir " + here: "--dir",
	} {
		if code, _, stderr := finish(t, words(line)...); code != exit.Usage || !strings.Contains(stderr, want) {
			t.Errorf("%s: exit code %d: %s", line, code, stderr)
		}
	}
}

// Ctrl-C leaves what has come, and two copies of one file do not write to it together.
func TestCopyInterrupted(t *testing.T) {
	here, there := t.TempDir(), t.TempDir()
	source := filepath.Join(here, "big")
	fileOf(t, source, 4<<20)
	v, _ := served(t, "--device soft:lo --dir "+there)
	_, port, _ := strings.Cut(v.host, ":")
	p := launch(t, "copy", "--device", "soft:lo", "--inject", "soft: delay 20ms, loss 30%", "--tcp-port", port, source, "127.0.0.1:big")
	part := filepath.Join(there, "big"+files.Suffix)
	for begun := time.Now(); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(part); err == nil {
			break
		}
		if time.Since(begun) > hung {
			t.Fatalf("nothing is copied: %s", p.stderr.String())
		}
	}
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t, hung); code != exit.Interrupted {
		t.Errorf("exit code %d: %s", code, p.stderr.String())
	}
	if r := v.next(t); r["ok"] != false || !strings.Contains(fmt.Sprint(r["error"]), "before the copy") {
		t.Errorf("the server: %v", r)
	}
	if _, err := os.Stat(part); err != nil {
		t.Error(err)
	}
	lock, err := os.OpenFile(part, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = lock.Close() }()
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		t.Fatal(err)
	}
	code, _, stderr := finish(t, "copy", "--device", "soft:lo", "--tcp-port", port, source, "127.0.0.1:big")
	if code != exit.Critical || !strings.Contains(stderr, "another copy writes to it") {
		t.Errorf("beside another: exit code %d: %s", code, stderr)
	}
	v.stop(t)
}
