package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ringcli/ring/segment"
)

// outcome is what came of a case.
type outcome struct {
	plan
	Codes    []int     `json:"codes"`    // by rank; -1 of the killed
	Seconds  []float64 `json:"seconds"`  // from the fault to each survivor's end
	Verdicts []verdict `json:"verdicts"` // of the survivors that failed
	Grades   []grade   `json:"grades"`   // of those
	Bad      []string  `json:"bad"`      // what must not be
	Wall     float64   `json:"wall"`
}

// verdict is what a rank says in JSON when its ring has failed.
type verdict struct {
	At         int    `json:"at"` // the rank that says it
	By         int    `json:"by"`
	Kind       string `json:"kind"`
	Rank       int    `json:"rank"`
	Confidence string `json:"confidence"`
	Edge       *struct {
		From int  `json:"from"`
		To   int  `json:"to"`
		Both bool `json:"both"`
	} `json:"edge"`
	Text string `json:"text"`
}

// grade is how good a verdict is.
type grade string

const (
	certain      grade = "certain" // the right one
	right        grade = "right"   // as a suspect
	vague        grade = "vague"   // an end of the edge, or nobody
	wrong        grade = "wrong"
	wrongCertain grade = "wrong as certain"
)

func (p *plan) grade(v *verdict) grade {
	named := map[int]bool{p.Victim: true}
	if p.Peer >= 0 {
		named[p.Peer] = true
	}
	good, near := false, false
	switch {
	case v.Edge != nil && v.Rank < 0:
		touches := named[v.Edge.From] || named[v.Edge.To]
		good = p.Peer >= 0 && named[v.Edge.From] && named[v.Edge.To] || p.Kind == isolate && touches
		near = touches && p.Peer < 0 && p.Kind != kill
	case v.Rank < 0:
		near = true
	case p.Peer < 0:
		good = v.Rank == p.Victim
	default:
		near = named[v.Rank] && v.Confidence != "certain"
	}
	sure := v.Confidence == "certain"
	switch {
	case good && sure:
		return certain
	case good:
		return right
	case near:
		return vague
	case sure:
		return wrongCertain
	}
	return wrong
}

// rank is a process of the case.
type rank struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer // guarded by mu, as at
	mu       sync.Mutex
	ready    chan struct{} // closed by its first ping
	over     chan struct{} // closed at its end
	at       time.Time     // its end
}

// Write takes its standard output.
func (r *rank) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	pinged := bytes.Contains(r.out.Bytes(), []byte(`"command":"ping"`))
	r.out.Write(b)
	if !pinged && bytes.Contains(r.out.Bytes(), []byte(`"command":"ping"`)) {
		close(r.ready)
	}
	return len(b), nil
}

// run runs a case in this process' namespaces, which are nobody else's.
func run(p plan, ringcli, scratch string) (o outcome) {
	o = outcome{plan: p, Codes: make([]int, ranks), Bad: []string{}}
	bad := func(format string, args ...any) { o.Bad = append(o.Bad, fmt.Sprintf(format, args...)) }
	begun := time.Now()
	defer func() { o.Wall = time.Since(begun).Seconds() }()
	if err := prepare(&p); err != nil {
		bad("prepare: %v", err)
		return o
	}
	list := make([]string, ranks)
	for i := range list {
		list[i] = fmt.Sprintf("127.0.0.%d", i+1)
		if p.Provider == "soft" {
			list[i] = address(i)
		}
	}
	world := make([]*rank, ranks)
	for i := range world {
		args := []string{
			ringcli, "connect", "--index", fmt.Sprint(i), "--list", strings.Join(list, ","), "--device", p.Provider, "--output", "json", "--print", "all",
			"-c", strings.Join(append([]string{"ping"}, p.Lines...), "; "),
		}
		if p.Hosts != "" {
			args = append(args, "--hosts", p.Hosts)
		}
		if p.Inject != "" {
			args = append(args, "--inject", p.Inject)
		}
		if p.Provider == "soft" {
			args = append([]string{"ip", "netns", "exec", node(i)}, args...)
		}
		r := &rank{cmd: exec.Command(args[0], args[1:]...), ready: make(chan struct{}), over: make(chan struct{})}
		r.cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratch, "TMPDIR=" + scratch, "RINGCLI_TRACE_DIR=" + filepath.Join(scratch, "traces")}
		r.cmd.Stdout, r.cmd.Stderr = r, &r.err
		r.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := r.cmd.Start(); err != nil {
			bad("start rank %d: %v", i, err)
			return o
		}
		defer func() { _ = r.cmd.Process.Kill() }()
		go func() {
			_ = r.cmd.Wait() // the state says it
			r.at = time.Now()
			close(r.over)
		}()
		world[i] = r
	}
	defer func() {
		for i, r := range world {
			_ = os.WriteFile(filepath.Join(scratch, fmt.Sprintf("rank%d.out", i)), r.out.Bytes(), 0o600)
			_ = os.WriteFile(filepath.Join(scratch, fmt.Sprintf("rank%d.err", i)), r.err.Bytes(), 0o600)
		}
	}()
	for i, r := range world {
		select {
		case <-r.ready:
		case <-r.over:
			bad("rank %d ended before the ring was up: %s", i, r.err.String())
			return o
		case <-time.After(time.Minute):
			bad("rank %d: no ring within a minute", i)
			return o
		}
	}
	time.Sleep(p.At)
	struck := time.Now()
	ended, err := strike(&p, world)
	o.plan = p
	if err != nil {
		bad("%v", err)
	}
	await(&o, world, struck, ended, bad)
	for i, r := range world {
		if p.Kind == kill && i == p.Victim {
			continue
		}
		judge(&o, i, r, bad)
	}
	together(&o, bad)
	for _, l := range leftovers(&p, scratch) {
		bad("left behind: %s", l)
	}
	return o
}

// await waits for the end of all ranks, and checks how long that took.
func await(o *outcome, world []*rank, struck time.Time, ended <-chan time.Time, bad func(string, ...any)) {
	const hung = 90 * time.Second
	deadline := time.After(hung)
	var healed time.Time
	for i, r := range world {
		select {
		case <-r.over:
		case <-deadline:
			bad("rank %d hangs: %s after the fault", i, hung)
			_ = r.cmd.Process.Signal(syscall.SIGQUIT)
			select {
			case <-r.over:
			case <-time.After(5 * time.Second):
				_ = r.cmd.Process.Kill()
				<-r.over
			}
		}
	}
	healed = <-ended
	for i, r := range world {
		o.Codes[i] = r.cmd.ProcessState.ExitCode()
		if o.Codes[i] != 2 {
			continue
		}
		from := struck
		if (o.Kind == stop || o.Kind == pause) && i == o.Victim {
			from = healed // it cannot do anything before
		}
		took := r.at.Sub(from)
		o.Seconds = append(o.Seconds, took.Seconds())
		if took > o.bound() {
			bad("rank %d ended %.1f s after the fault: expected %s at most", i, took.Seconds(), o.bound())
		}
	}
}

// judge takes a survivor's exit code and verdict.
func judge(o *outcome, i int, r *rank, bad func(string, ...any)) {
	switch code := o.Codes[i]; code {
	case 0:
		return
	case 2:
	default:
		bad("rank %d: exit code %d: %s", i, code, last(r.err.String()))
		return
	}
	v := verdict{Rank: -1, At: i}
	var said *verdict
	for line := range bytes.Lines(r.out.Bytes()) {
		var f struct{ Verdict *verdict }
		if json.Unmarshal(line, &f) == nil && f.Verdict != nil {
			said = f.Verdict
		}
	}
	if said == nil {
		bad("rank %d: exit code 2 without a verdict: %s", i, last(r.out.String()))
	} else {
		v = *said
		v.At = i
	}
	g := o.grade(&v)
	o.Verdicts, o.Grades = append(o.Verdicts, v), append(o.Grades, g)
	if g == wrongCertain {
		bad("rank %d names a wrong one as certain: %s", i, v.Text)
	}
}

// together checks that all survivors have the fate that the fault must have, or all the same.
func together(o *outcome, bad func(string, ...any)) {
	failed, well := 0, 0
	for i, code := range o.Codes {
		switch {
		case o.Kind == kill && i == o.Victim:
		case code == 0:
			well++
		default:
			failed++
		}
	}
	switch {
	case o.Expect == dies && well > 0:
		bad("exit codes %v: expected 2 of all survivors", o.Codes)
	case o.Expect == goes && failed > 0:
		said := ""
		if len(o.Verdicts) > 0 {
			said = ": " + o.Verdicts[0].Text
		}
		bad("exit codes %v: expected 0, for the fault passed%s", o.Codes, said)
	case failed > 0 && well > 0:
		bad("exit codes %v: expected all alike", o.Codes)
	}
}

// strike does the fault, and tells when it is over.
func strike(p *plan, world []*rank) (ended <-chan time.Time, err error) {
	over := make(chan time.Time, 1)
	ended = over
	victim := world[p.Victim].cmd.Process
	switch p.Kind {
	case kill:
		err = victim.Kill()
	case stop, pause:
		err = victim.Signal(syscall.SIGSTOP)
		time.AfterFunc(p.For, func() {
			_ = victim.Signal(syscall.SIGCONT)
			over <- time.Now()
		})
		return ended, err
	case cut, isolate:
		err = lose(p)
	case blip:
		err = p.interrupt()
	case flap:
		for range 4 {
			err = errors.Join(err, p.interrupt(), sleep(4*p.For))
		}
	case delay:
		for n := 0; p.Inject == "" && n < 50; n++ {
			err = errors.Join(err, victim.Signal(syscall.SIGSTOP), sleep(p.For), victim.Signal(syscall.SIGCONT), sleep(4*p.For))
		}
	}
	over <- time.Now()
	return ended, err
}

// interrupt cuts for a moment. The kernel takes its time for rules where the host does much
// besides: a cut that lasted longer than it was to may be one that ends the ring.
func (p *plan) interrupt() error {
	begun := time.Now()
	err := errors.Join(lose(p), sleep(p.For), heal(p))
	if took := time.Since(begun); took > p.For+300*time.Millisecond {
		p.Expect, p.Took = maybe, took
	}
	return err
}

func sleep(d time.Duration) error {
	time.Sleep(d)
	return nil
}

// node is the network namespace of a rank that has one of its own, and address where it is.
func node(rank int) string    { return fmt.Sprintf("node%d", rank) }
func address(rank int) string { return fmt.Sprintf("10.77.0.%d", rank+1) }

// prepare makes the namespaces ready: shared memory that only this case has, and loopback,
// or for packets a segment of Ethernet with a namespace for each rank.
func prepare(p *plan) error {
	if err := segment.Private("/dev/shm"); err != nil {
		return err
	}
	var hosts []segment.Host
	if p.Provider == "soft" {
		for i := range ranks {
			hosts = append(hosts, segment.Host{Name: node(i), Address: address(i) + "/24", Bridge: "switch0"})
		}
	}
	err := segment.Make(hosts)
	for _, h := range hosts {
		if err == nil {
			// What a rule drops comes before what is for the node's own addresses.
			err = segment.Commands("ip", h.Name, "rule add pref 100 lookup local", "rule delete pref 0")
		}
	}
	return err
}

// losing are the ranks that lose what another sends, and what they lose of it.
func losing(p *plan) map[int][]string {
	lost := map[int][]string{}
	add := func(from, to int) {
		for _, protocol := range map[string][]string{"tcp": {" ipproto tcp"}, "udp": {" ipproto udp"}, "all": {""}}[p.Proto] {
			lost[to] = append(lost[to], "rule add pref 50 iif eth0 from "+address(from)+protocol+" blackhole")
		}
	}
	for other := range ranks {
		if p.Peer < 0 && other != p.Victim || p.Peer == other {
			add(p.Victim, other)
			if p.Peer < 0 || p.Both {
				add(other, p.Victim)
			}
		}
	}
	return lost
}

// lose has the packets of a cut or an isolation lost.
func lose(p *plan) (err error) {
	for to, rules := range losing(p) {
		err = errors.Join(err, segment.Commands("ip", node(to), rules...))
	}
	return err
}

// heal takes that back.
func heal(p *plan) (err error) {
	for to, rules := range losing(p) {
		err = errors.Join(err, segment.Commands("ip", node(to), slices.Repeat([]string{"rule delete pref 50"}, len(rules))...))
	}
	return err
}

// leftovers are what the ranks have left behind: whatever is in the namespaces, in which
// nothing else was.
func leftovers(p *plan, scratch string) (list []string) {
	spaces := []string{""}
	if p.Provider == "soft" {
		for i := range ranks {
			spaces = append(spaces, node(i))
		}
	}
	for _, space := range spaces {
		args := []string{"ip", "netns", "exec", space}
		if space == "" {
			args = nil
		}
		args = append(args, "sh", "-c", "cat /proc/self/net/tcp; echo; cat /proc/self/net/udp; echo; cat /proc/self/net/unix; echo; readlink /proc/self/ns/net")
		out, err := exec.Command(args[0], args[1:]...).Output()
		if err != nil {
			return append(list, err.Error())
		}
		tables := strings.Split(strings.TrimSpace(string(out)), "\n\n")
		for t, table := range tables[:len(tables)-1] {
			for i, line := range strings.Split(table, "\n") {
				fields := strings.Fields(line)
				listens := t > 0 || len(fields) > 3 && fields[3] == "0A" // others are the kernel's to end
				if i > 0 && listens {
					list = append(list, "socket "+line)
				}
			}
		}
		processes, _ := filepath.Glob("/proc/[0-9]*/ns/net")
		for _, path := range processes {
			pid := filepath.Base(filepath.Dir(filepath.Dir(path)))
			if ns, err := os.Readlink(path); err == nil && ns == tables[len(tables)-1] && pid != fmt.Sprint(os.Getpid()) {
				name, _ := os.ReadFile("/proc/" + pid + "/comm")
				list = append(list, "process "+pid+" "+strings.TrimSpace(string(name)))
			}
		}
	}
	for _, dir := range []string{"/dev/shm", scratch} {
		err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
			if err == nil && path != dir && !strings.HasPrefix(path, filepath.Join(scratch, "traces")) {
				list = append(list, "file "+path)
			}
			return err
		})
		if err != nil {
			list = append(list, err.Error())
		}
	}
	return list
}

// last is the last line of a text.
func last(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
