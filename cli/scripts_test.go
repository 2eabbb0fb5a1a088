package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ringcli/cli/exit"
	"ringcli/configs"
)

var durationInScript = regexp.MustCompile(`--duration \S+`)

// Each script that ringcli carries does what it says on a ring that is well; of
// durations only some milliseconds.
func TestCarriedScriptsRun(t *testing.T) {
	for _, name := range configs.ScriptNames() {
		if name == byHandScript {
			continue // a test of its own
		}
		t.Run(name, func(t *testing.T) {
			text, err := configs.Script(name)
			if err != nil {
				t.Fatal(err)
			}
			path := filepath.Join(t.TempDir(), name+".ring")
			text = durationInScript.ReplaceAllString(text, "--duration 50ms")
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			code, stdout, stderr := finish(t, "local", "-n", "2", "-f", path)
			// A bound on the bandwidth is a warning on a machine that does a lot besides.
			if code != exit.OK && (code != exit.Warning || !strings.Contains(stderr, "expected")) {
				t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
			}
		})
	}
}

const byHandScript = "by-hand"

// The bring-up by hand is for a shell of its own on each node, and -f finds it
// by its name.
func TestCarriedScriptByHandRunsOnEachNode(t *testing.T) {
	list := strings.Join([]string{"127.77.8.1", "127.77.8.2"}, ",")
	other := launch(t, "shell", "--index", "1", "--list", list, "-f", byHandScript)
	code, stdout, stderr := finish(t, "shell", "--index", "0", "--list", list, "-f", byHandScript)
	if code != exit.OK {
		t.Errorf("rank 0: exit code %d\n%s%s", code, stdout, stderr)
	}
	if code := other.end(t, hung); code != exit.OK {
		t.Errorf("rank 1: exit code %d\n%s%s", code, other.stdout.String(), other.stderr.String())
	}
	if !strings.Contains(stdout, "# wrong == 0 holds") {
		t.Errorf("the last line is not reached:\n%s", stdout)
	}
}

// A name that is no file and no script names those that there are.
func TestScriptThatIsNoneNamesThoseCarried(t *testing.T) {
	for _, args := range [][]string{{"local", "-n", "2", "-f", "no-such"}, {"shell", "-c", "source no-such"}} {
		code, _, stderr := finish(t, args...)
		if code != exit.Usage || !strings.Contains(stderr, "rack-bring-up") {
			t.Errorf("%v: exit code %d, %q", args, code, stderr)
		}
	}
}
