package cli

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// Whoever is not root, with the socket buffers that the system allows anybody, has all
// commands.
func TestUnprivileged(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	const nobody = 65534
	home, err := os.MkdirTemp("", "ringcli-nobody-") // t.TempDir's parent is closed to others
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	root := os.Geteuid() == 0
	if root {
		if err := os.Chown(home, nobody, nobody); err != nil {
			t.Fatal(err)
		}
	}
	commands := [][]string{
		{"version"}, {"devices"}, {"query"}, {"config"}, {"schema"}, {"completion", "bash"}, {"help", "security"}, {"lab", "a"},
		{"connect", "--index", "0", "--list", freshList(t, 1)[0], "-c", "self-check"},
		{"local", "-n", "3", "--device", "soft", "-c", "ping; all-reduce --size 256K --check; reduce-scatter --size 64K --check; all-gather --size 64K --check; status; qp; counters; query; devices; trace debug; trace show; trace warn; set depth 2; show depth; mr reg x --size 4096; mr list; reconnect; ping; close"},
		{"local", "-n", "2", "--device", "shm", "-c", "ping; all-reduce --size 256K --check; self-check"},
		{"bench", "all-reduce", "-n", "2", "--device", "soft", "-b", "8", "-e", "1M", "-f", "64", "--iters", "2"},
	}
	if !testing.Short() {
		commands = append(commands, []string{"local", "-n", "4"}, []string{"bench", "p2p", "-n", "2", "--iters", "2"}, []string{"tune", "-n", "2", "--save", home + "/table.json"},
			[]string{"local", "-n", "4", "--device", "soft", "-c", "all-reduce --size 64M --iters 2 --warmup 0 --check"},
			[]string{"local", "-n", "2", "--device", "soft", "--inject", "soft: loss 1%", "-c", "all-reduce --size 1M --iters 3 --check"})
	}
	for _, args := range commands {
		t.Run(strings.Join(args, " "), func(t *testing.T) {
			t.Parallel()
			p := program(t, args...)
			p.Path = "/proc/self/exe" // whose folder may be closed to others
			p.Dir = home
			p.Env = append(p.Env, "HOME="+home, "TMPDIR="+home, "XDG_STATE_HOME="+home, "XDG_CONFIG_HOME="+home, "RINGCLI_TRACE_DIR="+home)
			if root {
				p.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
			}
			p.start(t)
			if code := p.end(t, hung); code != exit.OK {
				t.Errorf("exit code %d\n%.2000s%.2000s", code, p.stdout.String(), p.stderr.String())
			}
		})
	}
}
