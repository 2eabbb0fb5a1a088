package cli

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"ringcli/cli/exit"
	"ringcli/verbs/route"
	"ringcli/verbs/verbstest"
)

// doctored runs doctor by a shell that first does something to itself, and returns its rows by
// check, the gravest of each.
func doctored(t *testing.T, before string, args ...string) (code int, rows map[string]map[string]any) {
	t.Helper()
	return doctoredWith(t, before, "sh -ec", "exec", args...)
}

// doctoredWith names the shell, and what it becomes doctor by.
func doctoredWith(t *testing.T, before, shell, become string, args ...string) (code int, rows map[string]map[string]any) {
	t.Helper()
	p := program(t, append([]string{"doctor", "--output", "json"}, args...)...)
	words := strings.Fields(shell)
	path, err := exec.LookPath(words[0])
	if err != nil {
		t.Skip("no shell: ", err)
	}
	// Its folder may be closed to the user that it runs as.
	script := `exec 9<"$0"; ` + before + ` && ` + become + ` /proc/self/fd/9 "$@"`
	p.Args, p.Path = append(append(words, script, p.Path), p.Args[1:]...), path
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
	verbstest.Long(t)
	t.Parallel()
	list := freshList(t, 2)
	held, err := net.Listen("tcp4", list[0])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = held.Close() })
	roce := fmt.Sprintf("%s:%d", strings.Split(list[0], ":")[0], route.RoCEPort)
	heldUDP, err := net.ListenPacket("udp4", roce)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = heldUDP.Close() })
	pids := controlGroup(t, "pids", "pids.max", "900")
	memory := controlGroup(t, "memory", "memory.limit_in_bytes", "1073741824")
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
		{"UDP 4791 that is taken", "true", []string{"--index", "0", "--list", strings.Join(list, ","), "--device", "soft"}, "udp-port", "WARN", fmt.Sprintf("pid %d, has %s", os.Getpid(), roce)},
		{"memory", "true", []string{"--ranks", "60000"}, "memory", "WARN", "available"},
		{"a group's memory", memory, []string{"--ranks", "1000"}, "cgroup-memory", "FAIL", "1024 MiB"},
		{"a firewall", `d=$(mktemp -d) && printf '#!/bin/sh\nrm -r %s\necho "table ip f { \nchain in {\ntype filter hook input priority 0; policy drop;\n tcp dport 22 accept"' $d > $d/nft && chmod +x $d/nft && PATH=$d:$PATH`, nil, "firewall", "WARN", "lets in what a rule names, and none names TCP 18600"},
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

// What takes namespaces of its own: a network, a host name, and a /sys and a /dev that were
// made up, of an adapter that no machine here has.
func TestDoctorProvokedInNamespaces(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for _, tool := range []string{"unshare", "ip", "setpriv", "prlimit"} {
		if _, err := exec.LookPath(tool); err != nil || os.Geteuid() != 0 {
			t.Skipf("not root, or no %s: %v", tool, err)
		}
	}
	const (
		network = `ip link set lo up && ip link add d0 type veth peer d1 && ip addr add 10.9.8.7/24 dev d0 && ip link set d1 up && ip link set d0 up`
		adapter = `mount -t tmpfs none /sys && mkdir -p /sys/class/infiniband/mlx5_0`
		// A card that has trained down, of an interface, below a bridge that redirects (an
		// extended capability at 0x100: Access Control Services), beside a GPU.
		card = `mount -t tmpfs none /sys && d=/sys/devices/pci0/0000:3a:00.0 && c=$d/0000:3b:00.0 && p=/sys/bus/pci/devices &&
			mkdir -p $p/0000:5e:00.0 /sys/class/net/d0 $c && ln -s $d $c $p/ && ln -s $c /sys/class/net/d0/device && echo 0x030200 > $p/0000:5e:00.0/class &&
			for f in "current_link_speed 8.0 GT/s PCIe" "current_link_width 8" "max_link_speed 16.0 GT/s PCIe" "max_link_width 16"; do echo "${f#* }" > $c/${f%% *}; done &&
			printf '%256s\r\0\1\0\0\0\34\0%99s' | tr ' ' '\0' > $d/config`
		nobody = "exec setpriv --reuid 65534 --clear-groups"
	)
	for _, c := range []struct {
		name, before, with string
		args               []string
		check, verdict     string
		says               string
	}{
		{"an adapter that the library does not see", adapter, "exec", nil, "provider", "FAIL", "mlx5_0"},
		{"modules", adapter, "exec", nil, "modules", "FAIL", "ib_uverbs"},
		{"no uverbs", adapter, "exec", nil, "permission", "FAIL", "/dev/infiniband has none"},
		{"uverbs of root", adapter + " && mount -t tmpfs none /dev && mkdir /dev/infiniband && touch /dev/infiniband/uverbs0 && chmod 600 /dev/infiniband/uverbs0", nobody, nil, "permission", "FAIL", "permission denied"},
		{"memlock", adapter + " && ulimit -l 64", nobody, nil, "memlock", "FAIL", "64 KiB"},
		{"PCIe", network + " && " + card, "exec", nil, "pcie", "WARN", "soft:d0 8 GT/s x8"},
		{"ACS", network + " && " + card, "exec", nil, "acs", "WARN", "0000:3a:00.0 redirects"},
		{"an MTU", network, "exec", []string{"--mtu", "4096"}, "mtu", "FAIL", "active 1024"},
		{"an interface that is down", network + " && ip link set d0 down", "exec", []string{"--device", "soft:d0"}, "device", "FAIL", "d0 is down"},
		{"no carrier", network + " && ip link set d1 down", "exec", []string{"--device", "soft:d0"}, "port", "FAIL", "soft:d0/1 INIT"},
		{"ports for anybody", network + " && echo 1024 65535 > /proc/sys/net/ipv4/ip_local_port_range", "exec", nil, "ephemeral-ports", "WARN", "1024 to 65535"},
		{"socket buffers", network + " && test $(cat /proc/sys/net/core/rmem_max) -lt 8388608", nobody, nil, "socket-buffers", "WARN", "rmem_max"},
		{"a host name", "hostname no-such-host.invalid", "exec", nil, "host-name", "WARN", "no-such-host.invalid"},
		{"huge pages", `f=$(mktemp) && echo "always madvise [never]" > $f && mount --bind $f /sys/kernel/mm/transparent_hugepage/enabled && rm $f`, "exec", nil, "huge-pages", "WARN", "never"},
		{"threads", "true", nobody + " prlimit --nproc=200", []string{"--ranks", "100"}, "threads", "FAIL", "200"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			if out, err := exec.Command("unshare", "-mnu", "sh", "-ec", c.before).CombinedOutput(); err != nil {
				t.Skipf("this machine lets nobody do that: %v: %s", err, out)
			}
			code, rows := doctoredWith(t, c.before, "unshare -mnu sh -ec", c.with, c.args...)
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

// What a container's filter refuses a process has not: memory that ranks share. What ringcli does
// without is not told of as missing.
func TestDoctorSharedMemory(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, before, shell string
		refused             uint32 // a system call
		verdict, says       string
	}{
		{"a filter", "true", "sh -ec", unix.SYS_MEMFD_CREATE, "WARN", "memfd_create: operation not permitted"},
		{"memory that can be run is refused", "echo 2 >/proc/sys/vm/memfd_noexec", "unshare -pf --mount-proc sh -ec", 0, "PASS", "memfd works"},
		{"no /dev/shm", "mount -t tmpfs none /dev", "unshare -m sh -ec", 0, "PASS", "there is no /dev/shm, which ringcli does without"},
		{"a /dev/shm that takes nothing", "mount -t tmpfs -o size=4k,ro none /dev/shm", "unshare -m sh -ec", 0, "PASS", "memfd works"},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			words := append(strings.Fields(c.shell), c.before)
			if out, err := exec.Command(words[0], words[1:]...).CombinedOutput(); err != nil {
				t.Skipf("this machine lets nobody do that: %v: %s", err, out)
			}
			if c.refused != 0 {
				refuse(t, c.refused)
			}
			_, rows := doctoredWith(t, c.before, c.shell, "exec")
			if row := rows["shared-memory"]; row["verdict"] != c.verdict || !strings.Contains(fmt.Sprint(row["value"]), c.says) {
				t.Errorf("%v: expected %s with %q", row, c.verdict, c.says)
			}
		})
	}
}

// refuse has the kernel refuse a system call to what the test starts from now on.
func refuse(t *testing.T, call uint32) {
	t.Helper()
	runtime.LockOSThread() // which ends with the test
	const number = 0       // where struct seccomp_data has it
	program := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: number},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: 1, K: call},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)},
		{Code: unix.BPF_RET | unix.BPF_K, K: unix.SECCOMP_RET_ALLOW},
	}
	filter := unix.SockFprog{Len: uint16(len(program)), Filter: &program[0]}
	err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
	if err == nil {
		err = unix.Prctl(unix.PR_SET_SECCOMP, unix.SECCOMP_MODE_FILTER, uintptr(unsafe.Pointer(&filter)), 0, 0)
	}
	if err != nil {
		t.Skipf("this kernel takes no filter: %v", err)
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
	found := map[any]bool{}
	for _, o := range objects(t, out) {
		if found[o["check"]] = true; o["check"] == "tcp-port" || o["check"] == "clocks" {
			if o["verdict"] != "PASS" || fmt.Sprint(o["ranks"]) != "[0 1 2]" {
				t.Errorf("%v: expected PASS at all ranks: each has its own port, and all have one clock", o)
			}
		}
	}
	if !found["tcp-port"] || !found["clocks"] {
		t.Errorf("no row of the TCP port, or of the clocks\n%s%s", out, errs)
	}
}
