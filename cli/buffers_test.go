package cli

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"ringcli/cli/exit"
)

// TestBuffers: an operation runs on memory that is there already, of each kind, with every
// element checked, and says whether peers map it; where ranks share no memory, why not.
func TestBuffers(t *testing.T) {
	t.Parallel()
	temporary := t.TempDir()
	var lines []string
	kinds := []string{"alloc", "private", "mapping", "file"}
	for i, kind := range kinds {
		lines = append(lines, fmt.Sprintf("all-reduce --size 300003 --type int8 --check --buffers %s; all-gather --size 20K --check --iters 3 --in-place=%v --buffers %s", kind, i%2 == 0, kind))
	}
	lines = append(lines, "broadcast --count 0 --buffers file --check --iters 2; reduce --size 8 --root 1 --check --iters 2 --buffers mapping")
	for device, not := range map[string]string{"soft:lo": "expected shm", "shm": ""} {
		p := program(t, "local", "-n", "3", "--device", device, "--output", "json", "-c", strings.Join(lines, "; "))
		p.Env = append(p.Env, "TMPDIR="+temporary)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		code := p.end(t, hung)
		stdout, stderr := p.stdout.String(), p.stderr.String()
		if code != exit.OK {
			t.Fatalf("%s: exit code %d\n%s%s", device, code, stdout, stderr)
		}
		for i, o := range objects(t, stdout) {
			if i >= 2*len(kinds) {
				continue
			}
			kind, why := kinds[i/2], fmt.Sprint(o["buffers_not_mapped"])
			want := not
			if kind == "private" {
				want = "Alloc or Share"
				if not != "" {
					want = "is reached over soft:lo"
				}
			}
			if kind == "alloc" && o["buffers"] != nil || kind != "alloc" && o["buffers"] != kind || o["wrong"] != 0.0 {
				t.Errorf("%s, %s: %v", device, kind, o)
			}
			if mapped := o["buffers_not_mapped"] == nil; mapped != (want == "" || kind == "alloc") || !mapped && !strings.Contains(why, want) {
				t.Errorf("%s, %s: not mapped because %q, want %q", device, kind, why, want)
			}
		}
	}
	if left, err := filepath.Glob(filepath.Join(temporary, "*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
