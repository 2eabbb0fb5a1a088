package cli

import (
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"ringcli/cli/exit"
	"ringcli/configs"
	"ringcli/verbs/verbstest"
)

var durationInScript = regexp.MustCompile(`--duration \S+`)

// Each script that ringcli carries does what it says on a ring that is well, of whatever
// devices; of durations only some milliseconds, and with retries that outlast a busy machine.
func TestCarriedScriptsRun(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	rings := []struct {
		name    string
		devices []string // by rank
	}{{"soft", []string{"soft:lo", "soft:lo"}}, {"shm", []string{"shm", "shm"}}, {"mixed", []string{"auto", "auto", "soft:lo"}}}
	for _, ring := range rings {
		for _, name := range configs.ScriptNames() {
			if name == byHandScript {
				continue // a test of its own
			}
			t.Run(ring.name+", "+name, func(t *testing.T) {
				if ring.name != "soft" && name != "rack-bring-up" && testing.Short() {
					t.Skip("of the scripts the one that looks at what devices count")
				}
				text, err := configs.Script(name)
				if err != nil {
					t.Fatal(err)
				}
				path := filepath.Join(t.TempDir(), name+".ring")
				text = durationInScript.ReplaceAllString(text, "--duration 50ms")
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				list := strings.Join(freshList(t, len(ring.devices)), ",")
				var ranks []*process
				for rank, device := range ring.devices {
					ranks = append(ranks, launch(t, "connect", "--index", strconv.Itoa(rank), "--list", list, "--device", device, "--qp-timeout", "17", "-f", path))
				}
				for rank, p := range ranks {
					// A bound on a figure is a warning on a machine that does a lot besides.
					stderr := p.stderr.String
					if code := p.end(t, hung); code != exit.OK && (code != exit.Warning || !strings.Contains(stderr(), "expected")) {
						t.Errorf("rank %d: exit code %d\n%s%s", rank, code, p.stdout.String(), stderr())
					}
				}
			})
		}
	}
}

const byHandScript = "by-hand"

// The bring-up by hand is for a shell of its own on each node, and -f finds it
// by its name.
func TestCarriedScriptByHandRunsOnEachNode(t *testing.T) {
	list := strings.Join(freshList(t, 2), ",")
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
