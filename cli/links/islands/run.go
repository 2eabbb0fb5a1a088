package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"time"

	"ringcli/ring/segment"
)

// kinds are what may be wrong.
var kinds = []string{"healthy", "slow sender", "slow receiver", "slow pair", "crawling pair", "lossy pair", "late pair", "thin link"}

// The rates of ports, of one that is slow, and of the link between two groups. The WRITEs in
// flight must not stand in a queue for longer than the timer of a retransmission.
const (
	portRate, slowRate, thinRate = "240mbit", "96mbit", "120mbit"
	crawlRate                    = "2mbit" // a queue pair gives up before all WRITEs in flight have passed
	burst                        = " burst 64kb limit 4mb"
)

// plan is one run, which the seed of all, its kind and its number make.
type plan struct {
	Seed     uint64
	Kind     string
	Number   int
	Ranks    int
	From, To int
}

func newPlan(seed uint64, kind string, number int) plan {
	h := fnv.New64a()
	_, _ = h.Write([]byte(kind)) // a hash never fails
	rng := rand.New(rand.NewPCG(seed^h.Sum64(), uint64(number)))
	p := plan{Seed: seed, Kind: kind, Number: number, Ranks: 4 + rng.IntN(5)}
	if kind == "thin link" {
		p.Ranks = 8
	}
	p.From = rng.IntN(p.Ranks)
	p.To = (p.From + 1 + rng.IntN(p.Ranks-1)) % p.Ranks
	return p
}

// grade is what came of a run.
type grade string

const (
	right  grade = "right"
	wrong  grade = "wrong"
	nobody grade = "nobody"
	broken grade = "broken"
)

type outcome struct {
	plan
	Grade   grade
	Want    string
	Said    string
	Seconds float64
	Out     string // what rank 0 said, if that was not right
}

// finding is what rank 0 says in JSON.
type finding struct {
	Command, Finding, Culprit, Text string
	From, To                        []int
	BothWays                        bool `json:"both_ways"`
}

// is tells whether it is what was done.
func (f *finding) is(p *plan) bool {
	from, to := []int{p.From}, []int{p.To}
	switch p.Kind {
	case "slow sender":
		return f.Finding == "slow" && f.Culprit == "sender" && slices.Equal(f.From, from)
	case "slow receiver":
		return f.Finding == "slow" && f.Culprit == "receiver" && slices.Equal(f.To, to)
	case "slow pair", "crawling pair", "lossy pair":
		kind := f.Finding + " pair"
		return (kind == p.Kind || kind == "slow pair" && p.Kind == "crawling pair") && f.Culprit == "pair" && slices.Equal(f.From, from) && slices.Equal(f.To, to) && !f.BothWays
	case "late pair":
		same := slices.Equal(f.From, from) && slices.Equal(f.To, to) || slices.Equal(f.From, to) && slices.Equal(f.To, from)
		return f.Finding == "late" && f.Culprit == "pair" && same
	case "thin link":
		low, high := half(p.Ranks)
		same := slices.Equal(f.From, low) && slices.Equal(f.To, high) || slices.Equal(f.From, high) && slices.Equal(f.To, low)
		return f.Finding == "slow" && f.Culprit == "group" && same && f.BothWays
	}
	return false
}

// partly tells whether it is the thin link with fewer ranks than use it, or one direction of it: on a
// busy host a few do well by chance. That is incomplete, and accuses nobody else.
func (f *finding) partly(p *plan) bool {
	within := func(list, group []int) bool {
		return !slices.ContainsFunc(list, func(rank int) bool { return !slices.Contains(group, rank) })
	}
	low, high := half(p.Ranks)
	return p.Kind == "thin link" && f.Finding == "slow" && f.Culprit == "group" && (within(f.From, low) && within(f.To, high) || within(f.From, high) && within(f.To, low))
}

// half are the ranks of the two groups, even and odd.
func half(n int) (low, high []int) {
	for i := range n {
		if i%2 == 0 {
			low = append(low, i)
		} else {
			high = append(high, i)
		}
	}
	return low, high
}

func (p *plan) want() string {
	switch p.Kind {
	case "healthy":
		return "nobody"
	case "slow sender":
		return fmt.Sprintf("rank %d of %d as sender", p.From, p.Ranks)
	case "slow receiver":
		return fmt.Sprintf("rank %d of %d as receiver", p.To, p.Ranks)
	case "thin link":
		return "even to odd ranks"
	}
	return fmt.Sprintf("%s: rank %d to %d of %d", p.Kind, p.From, p.To, p.Ranks)
}

// run runs one in this process' namespaces, which are nobody else's.
func run(p plan, ringcli string, span time.Duration) (o outcome) {
	o = outcome{plan: p, Want: p.want(), Grade: broken}
	begun := time.Now()
	defer func() { o.Seconds = time.Since(begun).Seconds() }()
	if err := prepare(&p); err != nil {
		o.Said = err.Error()
		return o
	}
	scratch, err := os.MkdirTemp("", "islands-")
	if err != nil {
		o.Said = err.Error()
		return o
	}
	defer func() { _ = os.RemoveAll(scratch) }()
	var list []string
	for i := range p.Ranks {
		list = append(list, address(i))
	}
	var ranks []*exec.Cmd
	var out, stderr bytes.Buffer
	for i := range p.Ranks {
		args := []string{
			"netns", "exec", node(i), ringcli, "links", "--index", fmt.Sprint(i), "--list", strings.Join(list, ","), "--device", "soft", "--output", "json",
			"--time", span.String(), "--size", "16K",
		}
		if inject := p.inject(); inject != "" {
			args = append(args, "--inject", inject)
		}
		c := exec.Command("ip", args...)
		c.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + scratch, "TMPDIR=" + scratch, "RINGCLI_TRACE_DIR=" + scratch}
		if i == 0 {
			c.Stdout, c.Stderr = &out, &stderr
		}
		c.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			o.Said = err.Error()
			return o
		}
		defer func() { _ = c.Process.Kill() }()
		ranks = append(ranks, c)
	}
	for i, c := range ranks {
		if err := c.Wait(); err != nil && c.ProcessState.ExitCode() != 1 { // slow
			o.Said = errors.Join(fmt.Errorf("rank %d: %w", i, err), errors.New(stderr.String())).Error()
			return o
		}
	}
	if o.Grade, o.Said = p.judge(out.Bytes()); o.Grade != right {
		o.Out = out.String()
	}
	return o
}

// judge reads what rank 0 said.
func (p *plan) judge(out []byte) (grade, string) {
	var said []string
	found, others, whole := 0, 0, false
	for line := range bytes.Lines(out) {
		var f finding
		if json.Unmarshal(line, &f) != nil {
			continue
		}
		whole = whole || bytes.Contains(line, []byte(`"ruled_out"`))
		if f.Finding == "" {
			continue
		}
		said = append(said, f.Text)
		switch {
		case f.is(p):
			found++
		case !f.partly(p):
			others++
		}
	}
	text := strings.Join(said, "; ")
	switch {
	case !whole:
		return broken, "no verdict: " + string(out)
	case others > 0:
		return wrong, text
	case found == 1 || p.Kind == "healthy":
		return right, text
	}
	return nobody, text
}

// inject is what ranks do to their own packets.
func (p *plan) inject() string {
	switch p.Kind {
	case "lossy pair":
		return fmt.Sprintf("soft: loss 2%% to %d on %d", p.To, p.From)
	case "late pair":
		return fmt.Sprintf("soft: delay 5ms to %d on %d, delay 5ms to %d on %d", p.To, p.From, p.From, p.To)
	}
	return ""
}

// node is the network namespace of a rank, and address where it is.
func node(rank int) string    { return fmt.Sprintf("node%d", rank) }
func address(rank int) string { return fmt.Sprintf("10.77.0.%d", rank+1) }

// prepare makes a namespace for each rank, with a port of a bridge, or of one of two that a thin
// link joins.
func prepare(p *plan) error {
	if err := segment.Private(); err != nil {
		return err
	}
	hosts := make([]segment.Host, p.Ranks)
	for i := range hosts {
		hosts[i] = segment.Host{Name: node(i), Address: address(i) + "/24", Bridge: "switch0"}
		if p.Kind == "thin link" && i%2 == 1 {
			hosts[i].Bridge = "switch1"
		}
	}
	if err := segment.Make(hosts); err != nil {
		return err
	}
	if p.Kind == "thin link" {
		err := segment.Commands("ip", "", "link add name up0 type veth peer name up1", "link set dev up0 master switch0 up", "link set dev up1 master switch1 up")
		if err != nil {
			return err
		}
	}
	return p.throttle()
}

// throttle gives each port its rate, to the switch and from it.
func (p *plan) throttle() error {
	var here []string
	for i := range p.Ranks {
		out, in := portRate, portRate
		if p.Kind == "slow sender" && i == p.From {
			out = slowRate
		}
		if p.Kind == "slow receiver" && i == p.To {
			in = slowRate
		}
		here = append(here, "qdisc add dev "+segment.Port(i)+" root tbf rate "+in+burst)
		there := []string{"qdisc add dev eth0 root tbf rate " + out + burst}
		if rate := map[string]string{"slow pair": slowRate + " burst 64kb", "crawling pair": crawlRate + " burst 4kb"}[p.Kind]; rate != "" && i == p.From {
			there = []string{
				"qdisc add dev eth0 root handle 1: htb default 1", "class add dev eth0 parent 1: classid 1:1 htb rate " + portRate + " burst 64kb",
				"class add dev eth0 parent 1: classid 1:2 htb rate " + rate,
				"filter add dev eth0 parent 1: protocol ip u32 match ip dst " + address(p.To) + "/32 match ip protocol 17 0xff flowid 1:2",
			}
		}
		if err := segment.Commands("tc", node(i), there...); err != nil {
			return err
		}
	}
	if p.Kind == "thin link" {
		here = append(here, "qdisc add dev up0 root tbf rate "+thinRate+burst, "qdisc add dev up1 root tbf rate "+thinRate+burst)
	}
	return segment.Commands("tc", "", here...)
}
