package racktest

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"
	"time"
)

// launchLine is what mpirun's launcher "manual" wants started on a host, with the host's number.
var launchLine = regexp.MustCompile(`(?m)^HYDRA_LAUNCH: (.* --proxy-id (\d+).*)$`)

// mpirun of MPICH in one machine starts a rank in each of two, which knows nothing but
// `connect --check`: they find each other by PMI and make a ring over rxe. Hydra's own
// launcher here is the test: it prints what to start, as no machine has an ssh.
func TestMPICHAcrossMachines(t *testing.T) {
	if os.Getenv("RINGTEST_LAUNCHERS") == "" {
		t.Skip("RINGTEST_LAUNCHERS is not set: CI's stage launchers runs it")
	}
	if _, err := exec.LookPath("mpirun.mpich"); err != nil {
		t.Skipf("%v: expected Debian's mpich", err)
	}
	hosts := []string{bench.Address(1).String(), bench.Address(2).String()}
	job := startVM(t, 1, "env", "RINGCLI_QP_TIMEOUT=16", "RINGCLI_TIMEOUT=60s", // see connect
		"mpirun.mpich", "-launcher", "manual", "-iface", "eth0", "-hosts", strings.Join(hosts, ","), "-np", "2",
		binary(t, "ringcli"), "connect", "--check")
	job.await(t, "HYDRA_LAUNCH_END", deadline)
	said, _ := job.output.now()
	proxies := launchLine.FindAllStringSubmatch(said, -1)
	if len(proxies) != len(hosts) {
		t.Fatalf("%s\nexpected what to start on %v", said, hosts)
	}
	for _, p := range proxies {
		startVM(t, int(p[2][0]-'0')+1, "sh", "-c", p[1])
	}
	out := job.wait(t, 4*time.Minute)
	for _, want := range []string{"# self-check on 2 ranks of ibv:rxe0", "# OK: 2 ranks of ibv:rxe0"} {
		if strings.Count(out, want) != 1 {
			t.Errorf("%s\nexpected %q once", out, want)
		}
	}
}
