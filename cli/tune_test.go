package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringcli/cli/exit"
	"ringcli/cli/tables"
	"ringcli/collective/plan"
)

// ofCommand returns the last of the objects that are of a command and have a field.
func ofCommand(t *testing.T, stdout, command, field string) map[string]any {
	t.Helper()
	var last map[string]any
	for _, o := range objects(t, stdout) {
		if _, has := o[field]; has && o["command"] == command {
			last = o
		}
	}
	if last == nil {
		t.Fatalf("no %s with %s in\n%s", command, field, stdout)
	}
	return last
}

// What is tuned is in force at once, and whenever such a ring comes up, but in no
// other.
func TestTune(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	start := func(args ...string) (stdout, stderr string) {
		t.Helper()
		p := program(t, append(args, "--device", "soft:lo", "--output", "json")...)
		p.Env = append(p.Env, "XDG_CONFIG_HOME="+folder)
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		if code := p.end(t, hung); code != exit.OK {
			t.Fatalf("%q: exit code %d\n%s%s", args, code, p.stdout.String(), p.stderr.String())
		}
		return p.stdout.String(), p.stderr.String()
	}
	path := filepath.Join(folder, "ringcli", "table.json")
	stdout, _ := start("tune", "-n", "2", "--budget", "2s")
	sum := ofCommand(t, stdout, "tune", "saved")
	const sizes = 11                                 // 8 bytes to 16 MiB
	all := float64(sizes*len(plan.Operations()) + 1) // and a barrier
	if n := sum["points"].(float64); sum["saved"] != path || n < 3 || n > all || sum["of"] != all || sum["ways"].(float64) < 3 {
		t.Errorf("the summary is %v", sum)
	}
	f, err := tables.Read(path)
	if err != nil || len(f.Tables) != 1 || f.Tables[0].Ranks != 2 || f.Tables[0].Devices != "soft" || float64(len(f.Tables[0].Rules)) != sum["rules"] {
		t.Fatalf("saved is %+v, %v", f, err)
	}
	point := ofCommand(t, stdout, "tune", "fastest")
	if w := point["ways"].([]any); len(w) < 1 || point["default"].(map[string]any)["time_us"].(float64) <= 0 {
		t.Errorf("a point is %v", point)
	}

	stdout, _ = start("local", "-n", "2", "-c", "status; all-reduce --size 4K --check")
	if o := ofCommand(t, stdout, "status", "rules"); o["table"] != path || o["rules"] != sum["rules"] || !strings.HasPrefix(o["why"].(string), "measured on 2 ranks of soft") {
		t.Errorf("the table is %v", o)
	}
	stdout, _ = start("local", "-n", "3", "-c", "status")
	if o := ofCommand(t, stdout, "status", "rules"); o["table"] != "" || o["why"] != path+" has none for 3 ranks of soft" {
		t.Errorf("of another ring the table is %v", o)
	}
	stdout, _ = start("local", "-n", "2", "--table", "none", "-c", "status")
	if o := ofCommand(t, stdout, "status", "rules"); o["table"] != "" || o["why"] != "table is none (flag --table)" {
		t.Errorf("without one the table is %v", o)
	}

	// Not saved, but in force; and the ring is as good as before.
	stdout, _ = start("local", "-n", "2", "--table", "none", "-c", "tune --budget 1s --save none; status; all-reduce --size 64K --check; expect wrong == 0")
	if o := ofCommand(t, stdout, "status", "rules"); o["table"] != "tune" || o["origin"] != "tune" {
		t.Errorf("unsaved, the table is %v", o)
	}
	if left, err := os.ReadDir(filepath.Dir(path)); err != nil || len(left) != 1 {
		t.Errorf("left: %v, %v", left, err)
	}
}

func writeTable(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "table.json")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// Rank 0's table decides on all ranks, whatever the others have.
func TestTheTableOfRankZeroCounts(t *testing.T) {
	t.Parallel()
	zero := writeTable(t, `{"tables":[{"rules":[{"op":"all-reduce","max_bytes":8192,"algorithm":"ring","protocol":"rendezvous-read"},{"op":"all-reduce","algorithm":"ring","protocol":"rendezvous-write"}]}]}`)
	one := writeTable(t, `{"tables":[{"rules":[{"op":"all-reduce","algorithm":"ring","protocol":"eager"}]}]}`)
	list := freshList(t, 2)
	var ranks []*process
	for rank, table := range []string{zero, one} {
		ranks = append(ranks, launch(t, "connect", "--index", string(rune('0'+rank)), "--list", strings.Join(list, ","), "--device", "soft:lo", "--output", "json", "--table", table, "--trace", "collective=info", "--print", "all",
			"-c", "all-reduce --size 4K --check; all-reduce --size 16K --check; all-gather --size 256 --protocol eager; status"))
	}
	for rank, p := range ranks {
		if code := p.end(t, hung); code != exit.OK {
			t.Fatalf("rank %d: exit code %d\n%s", rank, code, p.stderr.String())
		}
		var protocols []string
		for _, o := range objects(t, p.stdout.String()) {
			if o["command"] == "all-reduce" {
				protocols = append(protocols, o["protocol"].(string))
			}
		}
		if strings.Join(protocols, " ") != "rendezvous-read rendezvous-write" {
			t.Errorf("rank %d: %v", rank, protocols)
		}
		if o := ofCommand(t, p.stdout.String(), "status", "rules"); o["table"] != zero || o["origin"] != "flag --table" || o["rules"] != 2.0 {
			t.Errorf("rank %d: the table is %v", rank, o)
		}
		if word := strings.Contains(p.stderr.String(), "is left alone: rank 0's counts"); word != (rank == 1) {
			t.Errorf("rank %d says\n%s", rank, p.stderr.String())
		}
	}
}

// A file that says nothing about such a ring is worth a word; a broken one ends it.
func TestATableThatDoesNotFit(t *testing.T) {
	t.Parallel()
	other := writeTable(t, `{"tables":[{"ranks":5,"rules":[{"op":"all-reduce","algorithm":"ring","protocol":"eager"}]}]}`)
	code, stdout, stderr := finish(t, "local", "-n", "2", "--device", "soft:lo", "--table", other, "-c", "all-reduce --size 4K --check")
	if code != exit.OK || strings.Count(stderr, "has none for 2 ranks of soft: the built-in choice is in force") != 2 {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	broken := writeTable(t, `{"tables":[{"rules":[{"op":"all-reduce","algorithm":"star"}]}]}`)
	code, stdout, stderr = finish(t, "local", "-n", "2", "--table", broken, "-c", "ping")
	if code != exit.Usage || stdout != "" || strings.Count(stderr, "\n") != 1 || !strings.Contains(stderr, broken+`: tables[0].rules[0]: unknown algorithm "star"`) {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
	// The shell is on its own, and so finds out when the ring is ready: on all ranks.
	list := freshList(t, 2)
	var ranks []*process
	for rank, table := range []string{broken, "none"} {
		ranks = append(ranks, launch(t, "shell", "--index", string(rune('0'+rank)), "--list", strings.Join(list, ","), "--device", "soft:lo", "--table", table, "--timeout", "20s",
			"-c", "open; init; exchange; rtr; rts; ping --all; all-reduce --size 4K"))
	}
	for rank, p := range ranks {
		if code := p.end(t, hung); code == exit.OK || !strings.Contains(p.stderr.String(), `unknown algorithm "star"`) {
			t.Errorf("rank %d: exit code %d\n%s", rank, code, p.stderr.String())
		}
	}
}
