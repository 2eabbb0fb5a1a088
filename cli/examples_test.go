package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ringcli/cli/exit"
	"ringcli/configs"
)

func TestExamplesArePrinted(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := finish(t, "examples", "--output", "json")
	list := objects(t, stdout)
	if code != exit.OK || len(list) != len(configs.Examples()) {
		t.Fatalf("exit code %d, %d examples: %s", code, len(list), stderr)
	}
	for i, e := range configs.Examples() {
		if list[i]["name"] != e.Name || list[i]["text"] != nil {
			t.Errorf("example %d is %v: expected %s, without its text", i, list[i], e.Name)
		}
	}
	// By its name or its file's, and a script as -f has it.
	for _, name := range []string{"soak", "soak.ring"} {
		want, err := configs.Script("soak")
		if err != nil {
			t.Fatal(err)
		}
		if code, stdout, stderr := finish(t, "examples", name); code != exit.OK || stdout != want {
			t.Errorf("%s: exit code %d, %s, %s", name, code, stdout, stderr)
		}
	}
	for _, wrong := range [][]string{{"slurm"}, {"soak", "mpirun"}} {
		code, stdout, stderr := finish(t, append([]string{"examples"}, wrong...)...)
		if code != exit.Usage || stdout != "" || !strings.Contains(stderr, "expected one") {
			t.Errorf("%q: exit code %d, %s%s", wrong, code, stdout, stderr)
		}
	}
}

// The Prolog lets a job onto a node whose link carries data, and says why it does not.
func TestThePrologTriesTheLink(t *testing.T) {
	t.Parallel()
	sh, dir := need(t, "sh"), commandDir(t)
	prolog := filepath.Join(dir, "slurm-prolog.sh")
	code, text, _ := finish(t, "examples", "slurm-prolog")
	if err := os.WriteFile(prolog, []byte(text), 0o600); err != nil || code != exit.OK {
		t.Fatal(code, err)
	}
	server, _ := served(t, "--device soft:lo")
	for _, c := range []struct {
		wait string
		code int
		want string
	}{{"60s", 0, ""}, {"1s", 1, "(exit code 2 of ringcli transport)\n"}} {
		cmd := exec.Command(sh, prolog)
		cmd.Env = append(os.Environ(), "PATH="+dir+":"+os.Getenv("PATH"), "RINGCLI_ENV=/dev/null",
			"RINGCLI_DEVICE=soft:lo", "RINGCLI_PEER="+server.host, "RINGCLI_WAIT="+c.wait)
		said, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != c.code || !strings.HasSuffix(string(said), c.want) || strings.Count(string(said), "\n") != c.code {
			t.Errorf("waiting %s: %v, %q: expected exit code %d, and %q", c.wait, err, said, c.code, c.want)
		}
		if c.code == 0 {
			server.stop(t)
		}
	}
}

// The job writes its reports to the folder that RINGCLI_REPORTS names.
func TestTheSlurmJobHasAKnob(t *testing.T) {
	t.Parallel()
	bash, dir := need(t, "bash"), commandDir(t)
	code, text, _ := finish(t, "examples", "slurm-job")
	for name, text := range map[string]string{"srun": "#!/bin/sh\nexec \"$@\"\n", "slurm-job.sh": text} { // one task
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil || code != exit.OK {
			t.Fatal(code, err)
		}
	}
	reports := filepath.Join(t.TempDir(), "reports")
	p := program(t).told("PATH="+dir+":"+os.Getenv("PATH"), "RINGCLI_REPORTS="+reports, "RINGCLI_WORLD_SIZE=1") // srun would say so
	p.Path, p.Args = bash, []string{bash, filepath.Join(dir, "slurm-job.sh")}
	p.start(t)
	if code := p.end(t, hung); code != exit.OK {
		t.Errorf("exit code %d: %s", code, &p.stderr)
	}
	for _, name := range []string{"rank0.xml", "rank0.prom"} {
		if _, err := os.Stat(filepath.Join(reports, name)); err != nil {
			t.Error(err)
		}
	}
}
