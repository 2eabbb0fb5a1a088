package cli

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ringcli/cli/exit"
)

// doctored runs doctor by a shell that first does something to itself, and returns its rows by
// check, the gravest of each.
func doctored(t *testing.T, before string, args ...string) (code int, rows map[string]map[string]any) {
	t.Helper()
	p := program(t, append([]string{"doctor", "--output", "json"}, args...)...)
	sh, err := exec.LookPath("sh")
	if err != nil {
		t.Skip("no sh: ", err)
	}
	p.Args = append([]string{"sh", "-c", before + ` && exec "$0" "$@"`, p.Path}, p.Args[1:]...)
	p.Path = sh
	p.start(t)
	code = p.end(t, hung)
	rows = map[string]map[string]any{}
	grave := map[any]int{"FAIL": 4, "WARN": 3, "SKIP": 2, "PASS": 1}
	for _, o := range objects(t, p.stdout.String()) {
		check, is := o["check"].(string)
		if is && (rows[check] == nil || grave[o["verdict"]] > grave[rows[check]["verdict"]]) {
			rows[check] = o
		}
	}
	if len(rows) < 20 {
		t.Fatalf("%d rows\n%s%s", len(rows), p.stdout.String(), p.stderr.String())
	}
	return code, rows
}

// What a machine can do to a process, it does: limits, a port that is taken, names, control
// groups, a network namespace, a user without rights.
func TestDoctorProvoked(t *testing.T) {
	t.Parallel()
	list := freshList(t, 2)
	held, err := net.Listen("tcp4", list[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Close() })
	pids := controlGroup(t, "pids", "pids.max", "900")
	cpus := controlGroup(t, "cpu", "cpu.cfs_quota_us", "90000")
	for _, c := range []struct {
		name, before string
		args         []string
		check        string
		verdict      string
		says         string
	}{
		{"open files", "ulimit -n 48", nil, "open-files", "FAIL", "48"},
		{"a port that is taken", "true", []string{"--index", "0", "--list", strings.Join(list, ",")}, "tcp-port", "FAIL", fmt.Sprintf("pid %d, has %s", os.Getpid(), list[0])},
		{"another's index", "true", []string{"--index", "0", "--list", "192.0.2.77," + list[1]}, "address", "FAIL", "192.0.2.77"},
		{"a name that nobody knows", "true", []string{"--list", "no-such-host.invalid," + list[0]}, "names", "FAIL", "no-such-host.invalid"},
		{"a device that is none", "true", []string{"--device", "soft:nothing"}, "device", "FAIL", "soft:nothing"},
		{"many ranks", "true", []string{"--ranks", "60000"}, "cpus", "WARN", "60000 ranks"},
		{"one CPU", "command -v taskset >/dev/null && taskset -p 1 $$ >/dev/null", []string{"--ranks", "2"}, "cpus", "WARN", "1 CPU for 2 ranks"},
		{"a group's pids", pids, []string{"--ranks", "100"}, "cgroup-pids", "FAIL", "900"},
		{"a group's quota", cpus, nil, "cgroup-cpu", "WARN", "0.9 CPUs"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if c.before == "" {
				t.Skip("no control group can be made here: not root, or its controller is not to be had")
			}
			code, rows := doctored(t, c.before, c.args...)
			row := rows[c.check]
			if row["verdict"] != c.verdict || !strings.Contains(fmt.Sprint(row["of"], " ", row["value"]), c.says) || row["fix"] == "" {
				t.Errorf("%v: expected %s with %q", row, c.verdict, c.says)
			}
			if code != exit.Critical && (c.verdict == "FAIL" || code != exit.Warning) {
				t.Errorf("exit code %d with a %s", code, c.verdict)
			}
		})
	}
}

// controlGroup makes one with a limit, and returns how a shell enters it; empty if it cannot.
func controlGroup(t *testing.T, controller, file, limit string) string {
	t.Helper()
	top := "/sys/fs/cgroup/" + controller
	dir := filepath.Join(top, fmt.Sprintf("ringcli-test-%d-%s", os.Getpid(), controller))
	if os.Geteuid() != 0 || os.Mkdir(dir, 0o755) != nil {
		return ""
	}
	t.Cleanup(func() {
		if err := os.Remove(dir); err != nil { // its processes have ended
			t.Error(err)
		}
	})
	if err := os.WriteFile(filepath.Join(dir, file), []byte(limit), 0o644); err != nil {
		return ""
	}
	return "echo $$ > " + dir + "/cgroup.procs"
}

// A network namespace of its own has no interface that is up: no device, and the port is free.
func TestDoctorInANamespace(t *testing.T) {
	t.Parallel()
	if err := exec.Command("unshare", "-n", "true").Run(); err != nil {
		t.Skip("no network namespace: not root, or no unshare: ", err)
	}
	p := program(t, "doctor", "--output", "json")
	unshare, err := exec.LookPath("unshare")
	if err != nil {
		t.Fatal(err)
	}
	p.Args, p.Path = append([]string{"unshare", "-n", p.Path}, p.Args[1:]...), unshare
	p.start(t)
	code := p.end(t, hung)
	if out := p.stdout.String(); code != exit.Critical || !strings.Contains(out, `"check":"provider","of":"soft","verdict":"FAIL","code":"no-device"`) {
		t.Errorf("exit code %d\n%s%s", code, out, p.stderr.String())
	}
}

// All ranks look, and rank 0 tells what they found.
func TestDoctorOfAllRanks(t *testing.T) {
	t.Parallel()
	_, out, errs := finish(t, "local", "-n", "3", "--device", "soft", "--output", "json", "-c", "doctor")
	found := false
	for _, o := range objects(t, out) {
		if o["check"] == "tcp-port" {
			found = true
			if o["verdict"] != "PASS" || fmt.Sprint(o["ranks"]) != "[0 1 2]" {
				t.Errorf("%v: expected PASS at all ranks: each has its own", o)
			}
		}
	}
	if !found {
		t.Errorf("no row of the TCP port\n%s%s", out, errs)
	}
}
