package configs

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// example writes one to a folder of the test, as a program if it is one.
func example(t *testing.T, name string) string {
	t.Helper()
	for _, e := range Examples() {
		if e.Name == name {
			path := filepath.Join(t.TempDir(), e.File)
			if err := os.WriteFile(path, []byte(e.Text), 0o755); err != nil {
				t.Fatal(err)
			}
			return path
		}
	}
	t.Fatalf("there is no example %s", name)
	return ""
}

func TestExamples(t *testing.T) {
	names := map[string]bool{}
	for _, e := range Examples() {
		if names[e.Name] {
			t.Errorf("%s is there twice", e.Name)
		}
		names[e.Name] = true
		if e.What == "" || len(e.What) > 90 {
			t.Errorf("%s: it is said to be %q", e.Name, e.What)
		}
		for i, line := range strings.Split(e.Text, "\n") {
			if len(line) > 120 || strings.ContainsAny(line, "\t\r") {
				t.Errorf("%s, line %d is long, or has tabs: %s", e.Name, i+1, line)
			}
		}
	}
}

func TestScriptsOfExamplesAreWellFormed(t *testing.T) {
	for _, e := range Examples() {
		first, _, _ := strings.Cut(e.Text, "\n")
		shell, is := strings.CutPrefix(first, "#!/bin/")
		if !is {
			continue
		}
		if out, err := exec.Command(shell, "-n", example(t, e.Name)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", e.Name, err, out)
		}
		if check, err := exec.LookPath("shellcheck"); err == nil {
			if out, err := exec.Command(check, example(t, e.Name)).CombinedOutput(); err != nil {
				t.Errorf("%s: %v\n%s", e.Name, err, out)
			}
		}
	}
}

func TestTheUnitIsVerified(t *testing.T) {
	analyze, err := exec.LookPath("systemd-analyze")
	if err != nil {
		t.Skip("there is no systemd-analyze")
	}
	path := example(t, "ringcli-preflight")
	if err := os.Chmod(path, 0o644); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// What it starts need not be installed here.
	text = []byte(strings.Replace(string(text), "/usr/bin/ringcli", "/bin/true", 1))
	if err := os.WriteFile(path, text, 0o644); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(analyze, "verify", "--man=no", path).CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("systemd-analyze verify: %v\n%s", err, out)
	}
}

// fake is a program of a name that a script calls: a line of a shell.
func fake(t *testing.T, name, body string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+body+"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	return path
}

// script runs an example with variables, and returns what it says and its exit code.
func script(t *testing.T, env []string, name string, args ...string) (said string, code int) {
	t.Helper()
	c := exec.Command(example(t, name), args...)
	c.Env = append(os.Environ(), "RINGCLI_ENV=/dev/null")
	c.Env = append(c.Env, env...)
	c.Dir = t.TempDir()
	out, err := c.CombinedOutput()
	if c.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), c.ProcessState.ExitCode()
}

func TestThePrologSaysWhyInOneLine(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	bad := fake(t, "ringcli", `echo "$@" >>`+calls+`
case $1 in
transport) echo 'waiting 1s for a server' >&2; echo 'ringcli: waited 5s for node9' >&2; exit 2 ;;
doctor) echo '{"time":"now","msg":"a trace"}' >&2; echo "ringcli: doctor: of 30 checks a warning: clock" >&2; exit 1 ;;
esac`)
	for _, c := range []struct {
		name string
		env  []string
		want string // empty: it is well
	}{
		{"a warning", nil, ""},
		{"a warning, strict", []string{"RINGCLI_STRICT=1"}, "ringcli: doctor: of 30 checks a warning: clock (exit code 1 of ringcli doctor)\n"},
		{"a link", []string{"RINGCLI_PEER=node9"}, "ringcli: waited 5s for node9 (exit code 2 of ringcli transport)\n"},
		{"a task's", []string{"RINGCLI_PEER=node9", "SLURM_SCRIPT_CONTEXT=prolog_task"}, "print ringcli: waited 5s for node9 (exit code 2 of ringcli transport)\nringcli: waited 5s for node9 (exit code 2 of ringcli transport)\n"},
		{"no program", []string{"RINGCLI=/none/ringcli"}, "ringcli: /none/ringcli: no such program\n"},
	} {
		said, code := script(t, append([]string{"RINGCLI=" + bad}, c.env...), "slurm-prolog")
		if said != c.want || (code == 0) != (c.want == "") {
			t.Errorf("%s: exit code %d, %q, want %q", c.name, code, said, c.want)
		}
	}
	if text, err := os.ReadFile(calls); err != nil || !strings.Contains(string(text), "transport bench node9 --timeout 10s") || strings.Contains(string(text), "drain") {
		t.Errorf("it has called %s, %v", text, err)
	}
}

// The nodes of a job call their peer at the same time: one that finds it busy calls again.
func TestThePrologCallsABusyPeerAgain(t *testing.T) {
	calls := filepath.Join(t.TempDir(), "calls")
	const says = "ringcli: transport bench: node9:18700 is busy: it serves node3:7 (192.0.2.3:40123), for bench, since 12:00:00 UTC (0s ago): wait"
	peer := fake(t, "ringcli", `case $1 in
transport) echo "$@" >>`+calls+`
    [ "$(wc -l <`+calls+`)" -gt 2 ] || { echo '`+says+`' >&2; exit 2; } ;;
esac`)
	if said, code := script(t, []string{"RINGCLI=" + peer, "RINGCLI_PEER=node9", "RINGCLI_BUSY=0"}, "slurm-prolog"); code != 1 || said != says+" (exit code 2 of ringcli transport)\n" {
		t.Errorf("without patience: exit code %d, %q", code, said)
	}
	if said, code := script(t, []string{"RINGCLI=" + peer, "RINGCLI_PEER=node9"}, "slurm-prolog"); code != 0 || said != "" {
		t.Errorf("exit code %d, %q", code, said)
	}
	if text, err := os.ReadFile(calls); strings.Count(string(text), "transport bench node9") != 3 {
		t.Errorf("it has called %s, %v", text, err)
	}
}

func TestTheHealthCheckSaysWhyInOneLine(t *testing.T) {
	dir := t.TempDir()
	for code, want := range []string{"", "", "ringcli: doctor: of 30 checks failed: port\n"} {
		program := fake(t, "ringcli", `echo "$@" >>`+dir+`/calls; echo "ringcli: doctor: of 30 checks failed: port" >&2; exit `+string(rune('0'+code)))
		said, got := script(t, []string{"RINGCLI=" + program, "RINGCLI_TEXTFILES=" + dir}, "slurm-health-check")
		if said != want || (got == 0) != (want == "") {
			t.Errorf("exit code %d of ringcli: %d, %q", code, got, said)
		}
	}
	if text, err := os.ReadFile(filepath.Join(dir, "calls")); err != nil || !strings.Contains(string(text), "doctor --metrics "+dir+"/ringcli.prom\n") {
		t.Errorf("it has called %s, %v", text, err)
	}
}

func TestLaunchersAreCalledAsTheyExpect(t *testing.T) {
	say := fake(t, "launcher", `if [ "$1" = --version ]; then echo "$KIND"; else echo "$@"; fi`)
	for _, c := range []struct {
		name, env string
		args      []string
		want      string
	}{
		{"mpirun", "KIND=mpirun (Open MPI) 4.1.4", []string{"a,b", "--timeout", "9s"}, "--host a,b ringcli connect --check --timeout 9s"},
		{"mpirun", "KIND=HYDRA build details:", []string{"a,b"}, "-np 2 -hosts a,b ringcli connect --check"},
		{"mpirun", "KIND=HYDRA build details:", nil, "-np 4 ringcli connect --check"},
		{"pdsh", "", []string{"a,b,c"}, "-R ssh -f 10000 -S -w a,b,c ringcli connect --list 'a,b,c' --index %n --check"},
	} {
		said, code := script(t, []string{"MPIRUN=" + say, "PDSH=" + say, c.env}, c.name, c.args...)
		if code != 0 || !strings.Contains(strings.TrimSpace(said), c.want) {
			t.Errorf("%s: exit code %d, %q, want %q", c.name, code, said, c.want)
		}
	}
	if said, code := script(t, nil, "pdsh"); code != 3 || !strings.Contains(said, "usage") {
		t.Errorf("pdsh without hosts: exit code %d, %s", code, said)
	}
	t.Setenv("PATH", filepath.Dir(fake(t, "srun", `echo "$@"`))+":"+os.Getenv("PATH"))
	if said, code := script(t, []string{"SLURM_JOB_ID=7"}, "slurm-job"); code != 0 || !strings.Contains(said, "--junit ringcli-7/rank%r.xml") {
		t.Errorf("the job: exit code %d, %s", code, said)
	}
}
