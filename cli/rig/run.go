package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ringcli/ring/segment"
)

// hung is how long a rank may run: several times as long as the deadlines of the program, and
// as links needs where it waits for several pairs without a connection.
const hung = 2 * time.Minute

// wait is the deadline of each wait of the program. It is short where a fault keeps the ring
// from coming up, and as by default where the ring must come up, however busy the machine is.
func (p *plan) wait() string {
	if slices.Contains([]string{"duplicate address", "wrong route", "absent", "silent program", "port taken", "descriptors"}, p.Kind) {
		return "6s"
	}
	return "30s"
}

// outcome is what came of a case.
type outcome struct {
	plan
	Grade   grade         `json:"grade"`
	Said    []string      `json:"said"`    // the accusations
	Bad     []string      `json:"bad"`     // exit codes, texts and files that are not as they must be
	Codes   []int         `json:"codes"`   // by rank; -1: none
	First   string        `json:"first"`   // line of text about a failure
	Seconds float64       `json:"seconds"` // from the fault to the first right accusation; 0: none
	Wall    float64       `json:"wall"`
	accused []*accusation // all of them
}

// ring is the ranks of a case.
type ring struct {
	*plan
	scratch string
	world   []*rank
	struck  time.Time
	quit    time.Time // when the rig ended a rank that hangs; zero: none
	group   string    // control group of the rank at fault
	ends    []func()  // of what was started, to be called from the last to the first
}

// rank is a process of the case.
type rank struct {
	cmd   *exec.Cmd
	err   bytes.Buffer
	mu    sync.Mutex    // guards out and lines
	out   bytes.Buffer  // the last line, if it is not whole
	lines []line        // of standard output
	ready chan struct{} // closed by its first ping
	over  chan struct{} // closed at its end
}

type line struct {
	at   time.Time
	text string
}

// Write takes its standard output.
func (r *rank) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.out.Write(b)
	for {
		text, rest, whole := strings.Cut(r.out.String(), "\n")
		if !whole {
			return len(b), nil
		}
		r.out.Reset()
		r.out.WriteString(rest)
		r.lines = append(r.lines, line{time.Now(), text})
		if strings.HasPrefix(text, "ping ") || strings.Contains(text, `"command":"ping"`) {
			select {
			case <-r.ready:
			default:
				close(r.ready)
			}
		}
	}
}

// node is the network namespace of a rank, and address where it is.
func node(rank int) string    { return fmt.Sprintf("node%d", rank) }
func address(rank int) string { return fmt.Sprintf("10.77.0.%d", rank+1) }
func cpus() int               { return runtime.NumCPU() }

// textual is the rank that prints text instead of JSON: not rank 0, which has more to say, and
// not the one at fault.
func (p *plan) textual() int {
	for i := 1; ; i++ {
		if i != p.Rank && i != p.To {
			return i
		}
	}
}

// run runs a case in this process' namespaces, which nothing else uses.
func run(p plan, ringcli, scratch string) (o outcome) {
	o = outcome{plan: p, Grade: broken, Bad: []string{}}
	begun := time.Now()
	defer func() { o.Wall = time.Since(begun).Seconds() }()
	r := &ring{plan: &p, scratch: scratch}
	defer func() {
		for _, end := range slices.Backward(r.ends) {
			end()
		}
	}()
	err := r.prepare()
	strike := p.kind().strike
	if r.struck = time.Now(); err == nil && p.Early && strike != nil {
		err = strike(r)
	}
	for i := 0; i < ranks && err == nil; i++ {
		err = r.start(i, ringcli)
	}
	defer r.keep()
	if err == nil && !p.Early {
		if err = r.up(); err == nil {
			time.Sleep(p.At)
			if r.struck = time.Now(); strike != nil {
				err = strike(r)
			}
		} else if o.accuse(r); len(o.accused) > 0 { // and nothing was wrong yet
			o.Grade = wrong
		}
	}
	if err != nil {
		o.Said = []string{err.Error()}
		return o
	}
	r.await(&o)
	o.judge(r)
	return o
}

// prepare makes a namespace for each rank, with a port of a bridge.
func (r *ring) prepare() error {
	if err := errors.Join(segment.Private(), os.Mkdir(r.traces(), 0o755)); err != nil {
		return err
	}
	hosts := make([]segment.Host, ranks)
	for i := range hosts {
		hosts[i] = segment.Host{Name: node(i), Address: address(i) + "/24", Bridge: "switch0"}
		if r.Kind == "thin uplink" && i >= ranks/2 {
			hosts[i].Bridge = "switch1"
		}
	}
	if r.Kind == "duplicate address" {
		hosts = append(hosts, segment.Host{Name: "double", Address: address(r.Rank) + "/24", Bridge: "switch0"})
	}
	if err := segment.Make(hosts); err != nil {
		return err
	}
	if strings.HasPrefix(r.Kind, "mtu hole") { // a bridge passes a train of packets (GSO) whatever its MTU
		for i := range ranks {
			if err := errors.Join(segment.Commands("ip", "", "link set dev "+segment.Port(i)+" mtu 9000"), segment.Commands("ip", node(i), "link set dev eth0 mtu 9000 gso_max_segs 1")); err != nil {
				return err
			}
		}
	}
	if r.Kind == "thin uplink" {
		if err := segment.Commands("ip", "", "link add name up0 type veth peer name up1", "link set dev up0 master switch0 up", "link set dev up1 master switch1 up"); err != nil {
			return err
		}
		if err := segment.Commands("tc", "", "qdisc add dev up0 root tbf rate 120mbit"+burst, "qdisc add dev up1 root tbf rate 120mbit"+burst); err != nil {
			return err
		}
	}
	if r.kind().moment != ports {
		return nil
	}
	for i := range ranks {
		if err := errors.Join(limit("", segment.Port(i), portRate), limit(node(i), "eth0", portRate)); err != nil {
			return err
		}
	}
	if r.kind().targets == anyEdge {
		return r.classes()
	}
	return nil
}

func (r *ring) traces() string { return filepath.Join(r.scratch, "traces") }

// limit gives a device a rate.
func limit(host, device, rate string) error {
	return segment.Commands("tc", host, "qdisc replace dev "+device+" root tbf rate "+rate+burst)
}

// start starts a rank.
func (r *ring) start(i int, ringcli string) error {
	list := make([]string, ranks)
	for k := range list {
		list[k] = address(k)
	}
	args := []string{"ip", "netns", "exec", node(i)}
	program, script := []string{ringcli, "connect"}, "ping; "+r.Script
	if i == r.Rank {
		switch r.Kind {
		case "wrong list":
			k := (i + 2 + r.Way) % ranks
			list[k] = "10.77.0.99"
		case "absent":
			program = []string{"sleep", "0"}
		case "port taken":
			if err := r.listen(); err != nil {
				return err
			}
		case "silent program":
			program = []string{"sleep", "0"}
			if err := r.listen(); err != nil {
				return err
			}
		case "descriptors":
			args = append(args, "prlimit", "--nofile=9")
		case "wrong PSN":
			script = strings.Replace(script, "rtr;", "rtr --side right --psn 0x5; rtr --side left;", 1)
		case "wrong MTU":
			script = strings.Replace(script, "rtr;", "rtr --side right --mtu 512; rtr --side left;", 1)
		}
	}
	args = append(args, program...)
	if program[0] == ringcli {
		output := "json"
		if i == r.textual() {
			output = "table"
		}
		file := func(name string) string { return filepath.Join(r.scratch, name) }
		args = append(args, "--index", fmt.Sprint(i), "--list", strings.Join(list, ","), "--device", "soft", "--output", output, "--print", "all", "--timeout", r.wait(),
			"--junit", file("junit-%r.xml"), "--metrics", file("rig-%r.prom"), "--good-hosts", file("good-%r"), "--bad-hosts", file("bad-%r"), "-c", script)
		if r.Kind == "late edge" {
			args = append(args, "--inject", fmt.Sprintf("soft: delay 5ms to %d on %d, delay 5ms to %d on %d", r.To, r.Rank, r.Rank, r.To))
		}
	}
	k := &rank{cmd: exec.Command(args[0], args[1:]...), ready: make(chan struct{}), over: make(chan struct{})}
	k.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + r.scratch, "TMPDIR=" + r.scratch, "RINGCLI_TRACE_DIR=" + r.traces()}
	k.cmd.Stdout, k.cmd.Stderr = k, &k.err
	k.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := k.cmd.Start(); err != nil {
		return fmt.Errorf("start rank %d: %w", i, err)
	}
	if i == r.Rank && r.group != "" {
		if err := os.WriteFile(filepath.Join(r.group, "cgroup.procs"), []byte(fmt.Sprint(k.cmd.Process.Pid)), 0o644); err != nil {
			return err
		}
	}
	r.ends = append(r.ends, func() { _ = k.cmd.Process.Kill(); <-k.over })
	go func() {
		_ = k.cmd.Wait() // the state says it
		close(k.over)
	}()
	r.world = append(r.world, k)
	return nil
}

// up waits for the first ping of all ranks.
func (r *ring) up() error {
	deadline := time.After(hung)
	for i, k := range r.world {
		select {
		case <-k.ready:
		case <-k.over:
			return fmt.Errorf("rank %d ended before the fault: %s", i, k.err.String())
		case <-deadline:
			return fmt.Errorf("no ping of rank %d within %s", i, hung)
		}
	}
	return nil
}

// await waits for the end of all ranks. One that is stopped goes on after all others have ended.
func (r *ring) await(o *outcome) {
	order := make([]int, 0, ranks)
	for i := range r.world {
		if i != r.Rank {
			order = append(order, i)
		}
	}
	deadline := time.After(hung)
	for _, i := range append(order, r.Rank) {
		k := r.world[i]
		if i == r.Rank && r.Kind == "stop" {
			_ = k.cmd.Process.Signal(syscall.SIGCONT)
		}
		select {
		case <-k.over:
		case <-deadline:
			o.Bad = append(o.Bad, fmt.Sprintf("rank %d hangs: not ended within %s", i, hung))
			r.quit = time.Now()
			_ = k.cmd.Process.Signal(syscall.SIGQUIT) // it prints its stacks
			select {
			case <-k.over:
			case <-time.After(5 * time.Second):
				_ = k.cmd.Process.Kill()
				<-k.over
			}
		}
	}
	for _, k := range r.world {
		o.Codes = append(o.Codes, k.cmd.ProcessState.ExitCode())
	}
}

// keep writes what the ranks have printed to the case's folder.
func (r *ring) keep() {
	for i, k := range r.world {
		k.mu.Lock()
		var b strings.Builder
		for _, l := range k.lines {
			fmt.Fprintln(&b, l.text)
		}
		k.mu.Unlock()
		_ = os.WriteFile(filepath.Join(r.scratch, fmt.Sprintf("rank%d.out", i)), []byte(b.String()), 0o600)
		_ = os.WriteFile(filepath.Join(r.scratch, fmt.Sprintf("rank%d.err", i)), k.err.Bytes(), 0o600)
	}
}

// runs reports whether a process is one of the ring: some kinds start something else.
func (r *ring) runs(i int) bool {
	return i != r.Rank || !slices.Contains([]string{"absent", "silent program"}, r.Kind)
}
