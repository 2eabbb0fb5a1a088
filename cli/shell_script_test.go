package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringcli/cli/exit"
)

// What a script prints and how it ends, as -c, as -f and as lines of a pipe. Each
// rank has the ring to itself.
func TestScriptsEndAsTheyShould(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	nested := filepath.Join(dir, "nested file.ring")
	if err := os.WriteFile(nested, []byte("# a comment\nall-reduce --size 4K --check # and another\n\nexpect wrong == 0\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	loop := filepath.Join(dir, "loop.ring")
	if err := os.WriteFile(loop, []byte("source '"+loop+"'\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	odd := map[string]string{}
	for name, text := range map[string]string{"unknown": "status\nal-reduce", "typed": "history", "open": "expect 'wrong == 0", "big": "all-reduce --size 900000G"} {
		odd[name] = filepath.Join(dir, name+".ring")
		deep := filepath.Join(dir, name+" deep.ring")
		for file, text := range map[string]string{deep: text, odd[name]: "sleep 0s\nsource '" + deep + "'"} {
			if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, c := range map[string]struct {
		script string
		flags  []string
		code   int
		says   string   // in the last object's error; "": none
		runs   []string // the commands that printed a result, but for sleep
	}{
		"success":             {script: "ping; all-reduce --size 4K --check; expect wrong==0; expect 'algbw' > 0", runs: []string{"ping", "all-reduce"}},
		"first failure":       {script: "all-reduce --size 4K; expect busbw > 1e9; ping", code: exit.Critical, says: "expected busbw_GBps > 1e9", runs: []string{"all-reduce"}},
		"warning":             {script: "all-reduce --size 4K; expect --warning algbw > 1e9; all-gather --size 4K", code: exit.Warning, says: "expected algbw_GBps > 1e9", runs: []string{"all-reduce", "all-gather"}},
		"unknown field":       {script: "all-reduce --size 4K; expect speed > 1; ping", code: exit.Usage, says: `no field "speed"`, runs: []string{"all-reduce"}},
		"keep going":          {script: "all-reduce --size 4K; expect busbw > 1e9; all-gather --size 4K", flags: []string{"--keep-going"}, code: exit.Critical, says: "expected busbw_GBps", runs: []string{"all-reduce", "all-gather"}},
		"mistake at once":     {script: "ping; al-reduce --size 4K", code: exit.Usage, says: `unknown command "al-reduce"`},
		"open quote":          {script: "ping; expect 'wrong == 0", code: exit.Usage, says: "opened and not closed"},
		"source":              {script: `source "` + nested + `"; quit; ping`, runs: []string{"all-reduce"}},
		"source in loop":      {script: "source " + loop, code: exit.Usage, says: "a file cannot run itself"},
		"files: a loop":       {script: "all-reduce --size 4K; source " + loop, code: exit.Usage, says: "a file cannot run itself"},
		"files: none":         {script: "all-reduce --size 4K; source nowhere.ring", code: exit.Usage, says: "nowhere.ring"},
		"files: unknown":      {script: "all-reduce --size 4K; source " + odd["unknown"], code: exit.Usage, says: `unknown command "al-reduce"`},
		"files: typed":        {script: "all-reduce --size 4K; source " + odd["typed"], code: exit.Usage, says: "history is for the shell"},
		"files: open":         {script: "all-reduce --size 4K; source " + odd["open"], code: exit.Usage, says: "opened and not closed"},
		"files: too big":      {script: "all-reduce --size 4K; source " + odd["big"], code: exit.Usage, says: "need more than"},
		"files: unknown name": {script: "source rack-check; quit", code: exit.Usage, says: "rack-check"},
		"no such file":        {script: "source nowhere.ring", code: exit.Usage, says: "nowhere.ring"},
		"only in a shell":     {script: "history", code: exit.Usage, says: "history is for the shell: expected none in -c and -f"},
		"set":                 {script: "set protocol rendezvous-read; all-reduce --size 4K; expect protocol == rendezvous-read", runs: []string{"all-reduce"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "script.ring")
			if err := os.WriteFile(file, []byte(strings.ReplaceAll(c.script, "; ", "\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			for _, how := range [][]string{{"-c", c.script}, {"-f", file}} {
				args := append([]string{"connect", "--index", "0", "--list", freshList(t, 1)[0], "--output", "json"}, how...)
				code, stdout, stderr := finish(t, append(args, c.flags...)...)
				if code != c.code || stderr != "" && code != exit.Critical {
					t.Errorf("%s: exit code %d, want %d\n%s%s", how[0], code, c.code, stdout, stderr)
				}
				var runs []string
				said := ""
				for _, o := range objects(t, stdout) {
					if text, is := o["error"].(string); is {
						said += text + "\n"
						continue
					}
					if command := o["command"].(string); command != "expect" && command != "set" {
						runs = append(runs, command)
					}
				}
				if strings.Join(runs, " ") != strings.Join(c.runs, " ") {
					t.Errorf("%s: %q ran, want %q\n%s", how[0], runs, c.runs, stdout)
				}
				if (c.says == "") != (said == "") || c.says != "" && strings.Count(said, c.says) != 1 {
					t.Errorf("%s: it says %q, want %q once", how[0], said, c.says)
				}
			}
		})
	}
}
