package cli

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// archived are the files of an archive, by their names without its folder.
func archived(t *testing.T, packed []byte) map[string]string {
	t.Helper()
	files := map[string]string{}
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		data, errRead := io.ReadAll(r)
		if err := errors.Join(err, errRead); err != nil {
			t.Fatal(err)
		}
		_, name, _ := strings.Cut(h.Name, "/")
		files[name] = string(data)
	}
}

// packedBy runs a report in a folder, which has one file more then, and nothing half-written.
func packedBy(t *testing.T, p *process) map[string]string {
	t.Helper()
	if p.Dir == "" {
		p.Dir = t.TempDir()
	}
	before, _ := os.ReadDir(p.Dir)
	p.start(t)
	if code := p.end(t, hung); code != exit.OK {
		t.Fatalf("exit code %d\n%s%s", code, p.stdout.String(), p.stderr.String())
	}
	found, err := filepath.Glob(filepath.Join(p.Dir, "ringcli-report-*.tar.gz"))
	if after, _ := os.ReadDir(p.Dir); err != nil || len(found) != 1 || len(after) != len(before)+1 {
		t.Fatalf("%v: %q, %d files, after %d", err, found, len(after), len(before))
	}
	data, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	return archived(t, data)
}

// A ring's token is in no report, wherever it came from and whoever has written it down.
func TestReportHasNoToken(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	const token = `0123456789"abcdef<hush>`
	dir := t.TempDir()
	file := filepath.Join(dir, "ring.token")
	results := filepath.Join(dir, "links.json")
	told := "the token is " + token + `, and {"x":"0123456789\"abcdef\u003chush\u003e"}` + "\npassword: hunter2\n"
	if err := errors.Join(os.WriteFile(file, []byte(token+"\n"), 0o600), os.WriteFile(results, []byte(told), 0o600)); err != nil {
		t.Fatal(err)
	}
	list := freshList(t, 1)[0]
	for name, p := range map[string]*process{
		"variable": program(t, "report", results),
		"file":     program(t, "report", results),
		"ring":     program(t, "local", "-n", "2", "--device", "soft", "-c", "report --recorder "+results),
		"parent":   program(t, "local", "-n", "2", "--device", "soft", "-c", "report "+results),
		"shell":    program(t, "local", "-n", "2", "--device", "soft", "--shell"),
		"own":      program(t, "connect", "--index", "0", "--list", list, "--token-file", file, "-c", "report "+results),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			switch name {
			case "shell":
				p.Stdin = strings.NewReader("report " + results + "\n")
				fallthrough
			case "variable", "parent":
				p.Env = append(p.Env, "RINGCLI_TOKEN="+token)
			case "file", "ring": // whose ranks have a token of their own besides
				p.Env = append(p.Env, "RINGCLI_TOKEN_FILE="+file)
			}
			p.Env = append(p.Env, "NCCL_PASSWORD=hunter2", "UCX_TLS=rc", "NOBODYS_VARIABLE=xyzzy")
			files := packedBy(t, p)
			for name, text := range files {
				for _, secret := range []string{token, `0123456789\"abcdef`, "hunter2", "NOBODYS_VARIABLE"} {
					if strings.Contains(text, secret) {
						t.Errorf("%s has %s", name, secret)
					}
				}
			}
			all := ""
			for name, text := range files {
				all += "\n" + name + ": " + text
			}
			for _, want := range []string{"[left out: token]", "[left out: name]", "UCX_TLS=rc", `"command":"doctor"`, `"command":"devices"`, `"command":"version"`} {
				if !strings.Contains(all, want) {
					t.Errorf("%s is not in it", want)
				}
			}
		})
	}
}

// Each rank's part is in rank 0's archive, and nothing lies elsewhere.
func TestReportOfAllRanks(t *testing.T) {
	t.Parallel()
	files := packedBy(t, program(t, "local", "-n", "3", "--device", "soft", "-c", "all-reduce --size 64K; report --recorder"))
	for rank := range 3 {
		for _, name := range []string{"MANIFEST", "doctor.json", "recorder.json", "node/addresses.txt"} {
			if name := fmt.Sprintf("rank%d/%s", rank, name); len(files[name]) == 0 {
				t.Errorf("no %s", name)
			}
		}
	}
	for _, dir := range []string{"rank0", "rank2"} {
		if text := files[dir+"/recorder.json"]; !strings.Contains(text, "all-reduce") {
			t.Errorf("%s's flight recorder does not know of the operation: %.300s", dir, text)
		}
	}
}

// A file that is there is replaced by request alone; standard output takes the archive.
func TestReportFiles(t *testing.T) {
	t.Parallel()
	out := filepath.Join(t.TempDir(), "r.tar.gz")
	if err := os.WriteFile(out, []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errs := finish(t, "report", "--out", out)
	if data, _ := os.ReadFile(out); code != exit.Usage || !strings.Contains(errs, "it is there: expected another name, or --force") || string(data) != "mine" {
		t.Errorf("exit code %d, %s", code, errs)
	}
	if code, text, errs := finish(t, "report", "--force", "--output", "json", "--out", out); code != exit.OK || !strings.Contains(text, out) {
		t.Errorf("exit code %d, %s%s", code, text, errs)
	}
	if data, _ := os.ReadFile(out); len(archived(t, data)) < 5 {
		t.Error("nothing in it")
	}
	if _, text, errs := finish(t, "report", "--out", "-"); len(archived(t, []byte(text))) < 5 || errs != "" {
		t.Errorf("standard output has %d bytes, standard error %s", len(text), errs)
	}
	if code, _, errs := finish(t, "report", "--out", "/no/such/folder/r"); code != exit.Critical || !strings.Contains(errs, "expected a directory that can be written to") {
		t.Errorf("exit code %d, %s", code, errs)
	}
}

// inMounts is a process in namespaces of its own, after a shell has done something there.
func inMounts(t *testing.T, before string, args ...string) *process {
	t.Helper()
	unshare, err := exec.LookPath("unshare")
	if err != nil || os.Geteuid() != 0 || exec.Command("unshare", "-mn", "true").Run() != nil {
		t.Skip("no namespaces: not root, or no unshare: ", err)
	}
	p := program(t, args...)
	p.Args, p.Path = append([]string{"unshare", "-mn", "sh", "-ec", before + `; exec "$0" "$@"`, p.Path}, p.Args[1:]...), unshare
	return p
}

// A disk that is full has no half of an archive on it.
func TestReportOnAFullDisk(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := inMounts(t, `mount -t tmpfs -o size=4k none `+dir+`; cd /; set +e; "$0" "$@"; code=$?; ls -A `+dir+`; exit $code`, "report", "--out", dir+"/r.tar.gz")
	p.start(t)
	if code := p.end(t, hung); code != exit.Critical || !strings.Contains(p.stderr.String(), "no space left on device") || p.stdout.String() != "" {
		t.Errorf("exit code %d, left on the disk: %q, %s", code, p.stdout.String(), p.stderr.String())
	}
}

// Ctrl-C while names are asked for leaves nothing.
func TestReportInterrupted(t *testing.T) {
	t.Parallel()
	// The name server is beyond a network that swallows all.
	p := inMounts(t, `ip link set lo up; ip link add d0 type veth peer d1; ip link set d1 up; ip link set d0 up; ip address add 10.9.8.7/24 dev d0; ip route add default dev d0;
		f=$(mktemp); echo nameserver 10.9.8.9 > $f; mount --bind $f /etc/resolv.conf; rm $f`, "report", "--list", "a.invalid,b.invalid", "--timeout", "100s")
	p.Dir = t.TempDir()
	p.start(t)
	asks := func() bool {
		udp, _ := os.ReadFile(fmt.Sprintf("/proc/%d/net/udp", p.Process.Pid)) // or it has ended
		return bytes.Contains(udp, []byte(":0035 "))
	}
	for begun := time.Now(); !asks(); time.Sleep(10 * time.Millisecond) {
		if time.Since(begun) > 20*time.Second {
			t.Skipf("no network that swallows all can be made here: %s", p.stderr.String())
		}
	}
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	code := p.end(t, hung)
	left, err := os.ReadDir(p.Dir)
	if code != exit.Interrupted || err != nil || len(left) > 0 {
		t.Errorf("exit code %d, left %v, %v\n%s", code, left, err, p.stderr.String())
	}
}
