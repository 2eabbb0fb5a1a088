package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringcli/cli/exit"
)

// A leader's ranks write a file each, all of which have a rank in their names; a
// bench of the leader's takes the leader's settings at all ranks.
func TestALeaderDumpsAllRanks(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := pipe(t, "local", "-n", "2", "--shell", "--output", "json")
	for _, line := range []string{
		"all-reduce --size 4K --iters 1",
		"trace dump --all " + filepath.Join(dir, "all.json"),
		"trace dump " + filepath.Join(dir, "own.json"),
		"set protocol rendezvous-read",
		"bench p2p -b 64 -e 64 --iters 3",
		"quit",
	} {
		p.line(line)
	}
	if code := p.over(); code != exit.OK {
		t.Fatalf("exit code %d\n%s%s", code, p.out, p.err)
	}
	if got := namesIn(t, dir); got != "all.rank0.json all.rank1.json own.json" {
		t.Errorf("got %s", got)
	}
	ranks := filepath.Join(dir, "all.rank")
	// The file of a rank is not overwritten, whatever it is called.
	code, _, stderr := finish(t, "trace", "merge", ranks+"0.json", ranks+"1.json", "--out", dir+"/./all.rank0.json")
	if code != exit.Usage || !strings.Contains(stderr, "is one of the files to merge") {
		t.Errorf("exit code %d\n%s", code, stderr)
	}
}

func namesIn(t *testing.T, dir string) string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return strings.Join(list, " ")
}
