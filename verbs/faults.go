package verbs

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"time"
)

// Injector is implemented by a Context that can do its packets harm on purpose.
type Injector interface {
	// Inject has packets fare as is said from now on, in place of how they fared before.
	Inject(Faults) error
}

// Faults are what happens on purpose to a device's packets.
type Faults struct {
	Seed uint64 // of what is left to chance
	List []Fault
}

// None tells whether packets are let alone.
func (f Faults) None() bool { return len(f.List) == 0 }

// Fault is what happens to some of the packets. The shares of them are from 0 to 1.
type Fault struct {
	Loss      float64
	Duplicate float64
	Reorder   float64 // a packet is held back behind the next one
	Corrupt   float64 // one bit is flipped after the ICRC was made
	// Delay holds each packet up for so long, Jitter for any time up to so much besides, and
	// Late a doubled one's second copy.
	Delay, Jitter, Late time.Duration
	Down                Outage
	// In and Out say whether it is for packets that arrive, that are sent, or for both.
	In, Out bool
	// On and Peer are ranks, -1 for any: where it is done, and whose packets it is for.
	On, Peer int
	// Addr is where Peer is; invalid for any.
	Addr netip.Addr
}

// Outage is when nothing passes, counted from the first packet: once from At on, or at the
// end of each period of Every.
type Outage struct{ For, At, Every time.Duration }

// Holds tells whether nothing passes at a time since the first packet.
func (o Outage) Holds(since time.Duration) bool {
	if o.Every > 0 {
		return since%o.Every >= o.Every-o.For
	}
	return since >= o.At && since < o.At+o.For
}

// NoFaults is the text of none.
const NoFaults = "off"

// FaultsHelp says how faults are written.
const FaultsHelp = `off, or "soft:" and faults separated by commas:

  loss 1%            that share of the packets is lost
  corrupt 0.1%       of that share a bit is flipped
  duplicate 5%       that share comes twice; late 20ms: up to so much later
  reorder 10%        that share comes behind the next packet
  delay 2ms          each packet is held up; jitter 1ms: up to so much besides
  down 2s every 10s  no packet passes, at the end of each 10 s
  down at 5s for 2s  no packet passes, once, 5 s from the first packet on
  seed 7             what is left to chance goes another way

Behind a fault may stand whose packets it is for: in for those that arrive, out
for those that are sent, to 2 and from 2 for those to and from rank 2, and on 1
if rank 1 alone is to have it. Without these a link is down both ways, and what
else happens, happens to what is sent.`

const faultsExpected = `expected off or, for example, "soft: loss 1%, corrupt 0.1% in, delay 2ms to 2, down 2s every 10s"`

// ParseFaults reads faults as FaultsHelp has them.
func ParseFaults(text string) (faults Faults, err error) {
	text = strings.TrimSpace(text)
	if text == NoFaults {
		return Faults{}, nil
	}
	provider, list, ok := strings.Cut(text, ":")
	switch provider = strings.TrimSpace(provider); {
	case !ok:
		return Faults{}, fmt.Errorf("%q is not what can happen to packets: %s", text, faultsExpected)
	case provider != "soft":
		return Faults{}, fmt.Errorf("%q: only soft devices inject faults: %s", provider, faultsExpected)
	}
	for part := range strings.SplitSeq(list, ",") {
		words := strings.Fields(part)
		if len(words) == 2 && words[0] == "seed" {
			if faults.Seed, err = strconv.ParseUint(words[1], 10, 64); err != nil {
				return Faults{}, fmt.Errorf("seed %q: expected a whole number", words[1])
			}
			continue
		}
		f, err := parseFault(words)
		if err != nil {
			return Faults{}, err
		}
		faults.List = append(faults.List, f)
	}
	if faults.None() {
		return Faults{}, fmt.Errorf("%q has no fault: %s", text, faultsExpected)
	}
	return faults, nil
}

// parseFault reads one fault and whose packets it is for.
func parseFault(words []string) (f Fault, err error) {
	given := strings.Join(words, " ")
	take := func() string {
		if len(words) == 0 {
			return ""
		}
		w := words[0]
		words = words[1:]
		return w
	}
	f.On, f.Peer = -1, -1
	kind := take()
	rates := map[string]*float64{"loss": &f.Loss, "corrupt": &f.Corrupt, "duplicate": &f.Duplicate, "reorder": &f.Reorder}
	times := map[string]*time.Duration{"delay": &f.Delay, "jitter": &f.Jitter, "late": &f.Late}
	switch rate, duration := rates[kind], times[kind]; {
	case rate != nil:
		*rate, err = parseRate(take())
	case duration != nil:
		*duration, err = parseTime(take())
	case kind == "down":
		f.Down, err = parseOutage(take)
	case kind == "":
		return f, fmt.Errorf("there is no fault between two commas: %s", faultsExpected)
	default:
		return f, fmt.Errorf("%q: there is no fault %q: expected loss, corrupt, duplicate, reorder, delay, jitter, late, down or seed", given, kind)
	}
	for err == nil && len(words) > 0 {
		switch word := take(); word {
		case "in":
			f.In = true
		case "out":
			f.Out = true
		case "to", "from":
			f.Out, f.In = f.Out || word == "to", f.In || word == "from"
			f.Peer, err = parseRank(word, take())
		case "on":
			f.On, err = parseRank(word, take())
		default:
			err = fmt.Errorf("%q is not expected here: expected in, out, to RANK, from RANK or on RANK, or a comma before the next fault", word)
		}
	}
	if err != nil {
		return f, fmt.Errorf("%q: %w", given, err)
	}
	if !f.In && !f.Out {
		f.In, f.Out = kind == "down", true
	}
	return f, nil
}

func parseRate(text string) (float64, error) {
	number, percent := strings.CutSuffix(text, "%")
	rate, err := strconv.ParseFloat(number, 64)
	if percent {
		rate /= 100
	}
	if err != nil || !(rate >= 0 && rate <= 1) {
		return 0, fmt.Errorf("the share of packets is %q: expected 0%% to 100%%, such as 0.1%%", text)
	}
	return rate, nil
}

func parseTime(text string) (time.Duration, error) {
	d, err := time.ParseDuration(text)
	if err != nil || d <= 0 {
		return 0, fmt.Errorf("the time is %q: expected a duration above zero with its unit, such as 2ms or 1s", text)
	}
	return d, nil
}

// parseOutage reads "at T for T" or "T every T".
func parseOutage(take func() string) (o Outage, err error) {
	const expected = `expected "down 2s every 10s" or "down at 5s for 2s"`
	first := take()
	if first == "at" {
		at := take()
		if o.At, err = time.ParseDuration(at); err != nil || o.At < 0 {
			return o, fmt.Errorf("the time is %q: %s", at, expected)
		}
		if word := take(); word != "for" {
			return o, fmt.Errorf("%q stands where \"for\" is expected: %s", word, expected)
		}
		o.For, err = parseTime(take())
		return o, err
	}
	if o.For, err = parseTime(first); err != nil {
		return o, fmt.Errorf("%w: %s", err, expected)
	}
	if word := take(); word != "every" {
		return o, fmt.Errorf("%q stands where \"every\" is expected: %s", word, expected)
	}
	if o.Every, err = parseTime(take()); err == nil && o.Every <= o.For {
		err = fmt.Errorf("down for %s of every %s: expected it to be up for a part of that", o.For, o.Every)
	}
	return o, err
}

func parseRank(word, text string) (int, error) {
	rank, err := strconv.Atoi(text)
	if err != nil || rank < 0 {
		return 0, fmt.Errorf("%s %q: expected a rank, a whole number from 0", word, text)
	}
	return rank, nil
}

// At are those of the faults that a rank has. locate tells where a rank is, or that there
// is none.
func (f Faults) At(rank int, locate func(rank int) (netip.Addr, error)) (own Faults, err error) {
	own.Seed = f.Seed + uint64(rank) // each rank has a chance of its own
	for _, x := range f.List {
		if x.On >= 0 {
			if _, err := locate(x.On); err != nil {
				return Faults{}, err
			}
		}
		if x.Peer >= 0 {
			if x.Addr, err = locate(x.Peer); err != nil {
				return Faults{}, err
			}
		}
		if (x.On < 0 || x.On == rank) && x.Peer != rank {
			own.List = append(own.List, x)
		}
	}
	return own, nil
}
