package main

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"
)

// ranks is the size of every ring, each rank a process.
const ranks = 4

// The kinds of faults.
const (
	kill    = "kill"    // SIGKILL
	stop    = "stop"    // SIGSTOP, for longer than silence may last
	pause   = "pause"   // SIGSTOP for a moment, then SIGCONT
	cut     = "cut"     // what two ranks send each other is lost, one way or both, to the end
	isolate = "isolate" // all that a rank sends and is sent is lost, to the end
	blip    = "blip"    // a cut for a moment
	flap    = "flap"    // several of those
	delay   = "delay"   // packets are late, or where there are none a rank is
)

// expectation is what must come of a fault.
type expectation string

const (
	dies  expectation = "dies"  // all survivors end with exit code 2
	goes  expectation = "goes"  // all ranks go on to exit code 0
	maybe expectation = "maybe" // all of them the one or all the other: retries may last or not
)

// plan is what is to happen in a case. Its number and the seed make all of it.
type plan struct {
	Number   int           `json:"case"`
	Seed     uint64        `json:"seed"`
	Provider string        `json:"provider"`
	Kind     string        `json:"kind"`
	Expect   expectation   `json:"expect"`
	Victim   int           `json:"victim"`          // of a cut: who sends what is lost
	Peer     int           `json:"peer"`            // of a cut: who does not get it; else -1
	Both     bool          `json:"both"`            // of a cut: the other way too
	Proto    string        `json:"proto,omitempty"` // of a cut: tcp, udp or all
	At       time.Duration `json:"at"`              // after the bring-up
	For      time.Duration `json:"for,omitempty"`   // 0 is to the end
	Took     time.Duration `json:"took,omitempty"`  // of a blip or a flap: for as long instead, against its plan
	Inject   string        `json:"inject,omitempty"`
	Hosts    string        `json:"hosts,omitempty"` // that the ranks are told to be on
	Lines    []string      `json:"lines"`           // that all ranks run after a ping
}

// ways are what operations take: algorithm and protocols.
var ways = map[string][]string{
	"ring":               {"eager", "rendezvous-write", "rendezvous-read", "receiver-initiated", "direct"},
	"recursive-doubling": {"eager"},
	"tree":               {"eager"},
	"inbox":              {"eager", "direct"},
	"hierarchical":       {"eager"},
}

var operations = []string{"all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "barrier"}

// fits tells whether ranks take an operation by an algorithm and a protocol of ways.
func (p *plan) fits(operation, algorithm, protocol string) bool {
	switch {
	case operation == "barrier": // there are no data to be put into place
		return protocol == "eager" || protocol == "direct" && p.Provider == "shm" && algorithm == "inbox"
	case protocol == "direct":
		return p.Provider == "shm"
	case protocol == "receiver-initiated":
		return operation == "all-reduce"
	}
	return true
}

func newPlan(seed uint64, number int) plan {
	r := rand.New(rand.NewPCG(seed, uint64(number)))
	between := func(from, to time.Duration) time.Duration {
		return from + time.Duration(r.Int64N(int64(to-from))).Round(time.Millisecond)
	}
	p := plan{Number: number, Seed: seed, Victim: r.IntN(ranks), Peer: -1, At: between(0, 1500*time.Millisecond)}
	p.Provider = []string{"soft", "shm"}[r.IntN(2)]
	// Every other case is a kill; those that last long are rare.
	p.Kind = []string{kill, kill, kill, kill, kill, kill, kill, kill, stop, pause, pause, cut, cut, isolate, blip, flap, delay}[r.IntN(17)]
	if p.Kind == cut || p.Kind == blip || p.Kind == flap {
		p.Peer = (p.Victim + []int{1, 1, ranks - 1, ranks - 1, 2}[r.IntN(5)]) % ranks
		p.Both = r.IntN(2) == 0
	}
	if p.Peer >= 0 || p.Kind == isolate {
		p.Provider, p.Proto = "soft", []string{"tcp", "udp", "all"}[r.IntN(3)] // what shares memory, nothing cuts
	}
	neighbours := p.Peer == (p.Victim+1)%ranks || p.Victim == (p.Peer+1)%ranks
	switch p.Kind {
	case kill:
		p.Expect = dies
	case stop:
		p.Expect, p.For = dies, between(7*time.Second, 8*time.Second)
	case pause:
		p.Expect, p.For = goes, between(20*time.Millisecond, 200*time.Millisecond)
		if r.IntN(2) == 0 {
			p.Expect, p.For = maybe, between(300*time.Millisecond, 3*time.Second)
			if p.Provider == "shm" {
				p.Expect = goes
			}
		}
	case cut, isolate:
		p.Expect = dies
		if p.Proto == "udp" || p.Kind == cut && !neighbours { // which perhaps nobody needs
			p.Expect = maybe
		}
	case blip:
		p.Expect, p.For = goes, between(30*time.Millisecond, 200*time.Millisecond)
	case flap:
		p.Expect, p.For = goes, between(30*time.Millisecond, 150*time.Millisecond)
	case delay:
		p.Expect, p.For = goes, between(time.Millisecond, 8*time.Millisecond)
		if p.Provider == "soft" {
			p.Inject = fmt.Sprintf("soft: delay %s on %d", p.For, p.Victim)
		}
	}
	p.Hosts = []string{"", "2x2", "3,1"}[r.IntN(3)]
	p.Lines = p.lines(r)
	return p
}

// lines are the operations of a case, or nothing but a wait.
func (p *plan) lines(r *rand.Rand) []string {
	count, idle := 12, "sleep 3s"
	if p.Expect != goes { // until everybody has noticed
		count, idle = 56, "sleep 14s"
	}
	if r.IntN(6) == 0 {
		return []string{idle}
	}
	var list []string
	algorithms := slices.Sorted(maps.Keys(ways))
	if p.Hosts == "" {
		algorithms = slices.DeleteFunc(algorithms, func(a string) bool { return a == "hierarchical" })
	}
	for range count {
		operation := operations[r.IntN(len(operations))]
		algorithm := algorithms[r.IntN(len(algorithms))]
		if r.IntN(2) == 0 {
			algorithm = "ring" // which has most protocols
		}
		protocols := slices.DeleteFunc(slices.Clone(ways[algorithm]), func(protocol string) bool { return !p.fits(operation, algorithm, protocol) })
		line := fmt.Sprintf("%s --algorithm %s --protocol %s", operation, algorithm, protocols[r.IntN(len(protocols))])
		if operation != "barrier" {
			line += " --check --size " + []string{"4", "1000", "64K", "1M", "8M"}[r.IntN(5)]
		}
		if operation == "broadcast" || operation == "reduce" {
			line += fmt.Sprintf(" --root %d", r.IntN(ranks))
		}
		list = append(list, line+" --duration 250ms")
	}
	return list
}

// bound is within how long of the fault a survivor ends: what the settings' defaults
// promise (a death 2 s, a network that is down 1.5 s and a call, silence 5 s), and as long
// again as a machine that is so busy may keep a process waiting: 2 s for each process that
// wants a CPU.
func (p *plan) bound() time.Duration {
	busy := 2 * time.Second
	var load float64
	if text, err := os.ReadFile("/proc/loadavg"); err == nil {
		_, _ = fmt.Sscan(string(text), &load)
		busy = time.Duration(float64(busy) * max(1, load/float64(runtime.NumCPU())))
	}
	switch {
	case p.Kind == kill:
		return 2*time.Second + busy
	case p.Kind == stop || p.Kind == pause || p.Proto == "udp":
		return 7*time.Second + busy
	}
	return 5*time.Second + busy
}

func (p *plan) String() string {
	text := fmt.Sprintf("case %d: %s, rank %d", p.Number, p.Kind, p.Victim)
	if p.Peer >= 0 {
		text += fmt.Sprintf(" %s %d", map[bool]string{true: "and", false: "to"}[p.Both], p.Peer)
	}
	if p.Proto != "" {
		text += " (" + p.Proto + ")"
	}
	if p.For > 0 {
		text += " for " + p.For.String()
	}
	first, _, _ := strings.Cut(p.Lines[0], " --duration")
	return fmt.Sprintf("%s, %s, %s after the start of %q", text, p.Provider, p.At, first)
}
