package cli

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"ringcli/cli/exit"
)

// The Prolog lets a job onto a node whose link is well. Once that drops every packet, it
// keeps the next one off, and `scontrol show node` says why.
func TestLaunchersPrologKeepsAJobOff(t *testing.T) {
	inStage(t)
	fabric, dir := newIsland(t, 2), commandDir(t) // of the node, and of the host that it tries
	node := fabric[0]
	code, text, _ := finish(t, "examples", "slurm-prolog")
	if code != exit.OK {
		t.Fatal(code)
	}
	program(t, "transport", "serve", "--device", "soft:eth0", "--bind", "10.77.0.2").in(fabric[1]).start(t)
	prolog, env := filepath.Join(dir, "slurm-prolog.sh"), filepath.Join(dir, "slurm.env")
	for name, content := range map[string]string{
		// /etc/ringcli/slurm.env is this machine's.
		prolog: strings.Replace(text, "${RINGCLI_ENV:-/etc/ringcli/slurm.env}", env, 1),
		env:    fmt.Sprintf("PATH=%s:%s\nRINGCLI_PEER=10.77.0.2\nexport PATH RINGCLI_DEVICE=soft:eth0\n", dir, os.Getenv("PATH")+":/usr/sbin:/sbin"),
	} {
		if err := os.WriteFile(name, []byte(content), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	host := cluster(t, node, "Prolog="+prolog, "PrologEpilogTimeout=120")
	job := func() (string, error) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*hung)
		defer cancel()
		out, err := inside(ctx, node, "srun", "--quiet", "-n", "1", "echo", "the job has run").CombinedOutput()
		if ctx.Err() != nil {
			t.Fatalf("the job has not ended: %s", out)
		}
		return string(out), err
	}
	if out, err := job(); err != nil || !strings.Contains(out, "the job has run") {
		t.Fatalf("%v, %s: expected a job on a node that is well", err, out)
	}
	lose(t, node)
	if out, err := job(); err == nil || strings.Contains(out, "the job has run") {
		t.Errorf("%v, %s: expected no job on a node whose link is broken", err, out)
	}
	shown, err := inside(t.Context(), node, "scontrol", "show", "node", host).CombinedOutput()
	if want := regexp.MustCompile(`State=IDLE\+DRAIN(.|\n)*Comment=ringcli: .*no server has answered on 10[.]77[.]0[.]2`); !want.Match(shown) {
		t.Errorf("%v, %s: expected %s", err, shown, want)
	}
}

// lose has a node's eth0 lose whatever it sends: by netem, or where this kernel has none by a
// bucket that is smaller than any packet.
func lose(t *testing.T, node string) {
	t.Helper()
	tc := []string{"netns", "exec", node, "tc", "qdisc", "add", "dev", "eth0", "root"}
	if err := exec.Command("ip", append(tc, "netem", "loss", "100%")...).Run(); err != nil {
		ip(t, append(tc, "tbf", "rate", "1kbit", "burst", "10", "limit", "10")...)
	}
}
