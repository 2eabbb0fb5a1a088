package bench

import (
	"fmt"
	"math"
	"net"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/timing"
	"ringcli/collective/model"
	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs"
	"ringcli/verbs/pcie"
)

// Possible is the most that each edge of a ring can carry each way, as the slowest of its
// parts allows: absent where nothing is known.
type Possible struct {
	Rate float64    `json:"possible_GBps,omitempty"`
	By   model.Kind `json:"possible_by,omitempty"` // the part that binds: port, pcie, cpu (with its sockets) or memory
	Why  string     `json:"possible_why,omitempty"`
}

const (
	// possibleSpan is long enough for some stretches of each kind. It is spent before and after
	// what it bounds.
	possibleSpan = 2500 * time.Microsecond
	// stretch of it is short beside what a scheduler gives to others: the fastest one had the
	// CPU for itself.
	stretch = 200 * time.Microsecond
	// leastCopied is the shortest chunk that is copied by itself: of less a call is measured.
	leastCopied = 16 << 10
	// copied is beyond what caches hold, sent what a socket takes at once.
	copied, sent = 8 << 20, 32 << 10
	// socketDeadline is for a datagram that is lost.
	socketDeadline = 2 * time.Second
)

// fastest is the rate in GB/s of the fastest stretch of a step that moves so many bytes.
func fastest(n int, step func() error) (best float64) {
	for begun := time.Now(); time.Since(begun) < possibleSpan; {
		done, from := 0, time.Now()
		for took := time.Duration(0); took < stretch; took = time.Since(from) {
			if step() != nil {
				return 0
			}
			done += n
		}
		best = max(best, float64(done)/float64(time.Since(from)))
	}
	return best
}

// fastestCopy is the rate at which a core copies so many bytes, by the stores that suit them.
func fastestCopy(n int) float64 {
	from, to := make([]byte, n), make([]byte, n)
	copy(to, from) // memory that is there
	return max(fastest(n, func() error { copy(to, from); return nil }), fastest(n, func() error { reduce.Stream(to, from); return nil }))
}

// fastestSocket is the rate of one socket of the loopback interface to another; 0 if there is
// none.
func fastestSocket() float64 {
	in, err := net.ListenUDP("udp4", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return 0
	}
	defer func() { _ = in.Close() }()
	out, err := net.DialUDP("udp4", nil, in.LocalAddr().(*net.UDPAddr))
	if err != nil {
		return 0
	}
	defer func() { _ = out.Close() }()
	b := make([]byte, sent)
	// What is lost is not waited for.
	if in.SetReadDeadline(time.Now().Add(socketDeadline)) != nil {
		return 0
	}
	return fastest(sent, func() error {
		if _, err := out.Write(b); err != nil {
			return err
		}
		_, err := in.Read(b)
		return err
	})
}

// possibleOf finds out what the edges of this rank to its neighbours can carry of vectors of so many
// bytes. All ranks do so at the same time, since those of one host share it. What is measured is
// the best that this rank has seen, since others may have the CPU at a time. Of no bytes there
// is nothing to be known.
func possibleOf(m *session.Member, bytes uint64) Possible {
	if m.Ring.Size() == 1 || bytes == 0 {
		return Possible{}
	}
	if m.Carried == nil {
		m.Carried = map[int]float64{}
	}
	carried := func(n int, now float64) float64 {
		m.Carried[n] = max(m.Carried[n], now)
		return m.Carried[n]
	}
	var bounds []model.Bound
	var before *ring.Device
	for _, e := range []*ring.Edge{m.Ring.Left(), m.Ring.Right()} {
		d := e.Device()
		if d == nil || d == before {
			continue
		}
		before = d
		switch {
		case d.Provider() == "shm":
			n := int(min(max(bytes/uint64(m.Ring.Size()), leastCopied), copied))
			bounds = append(bounds, gigabytes(model.Memory, carried(n, fastestCopy(n)), fmt.Sprintf("what a core copies of %d bytes", n)))
		case d.Attr.Software:
			bounds = append(bounds, gigabytes(model.CPU, carried(0, fastestSocket()), "what a core sends and receives over UDP, with its socket buffers"), gigabytes(model.Port, float64(d.Port.Attr.SpeedMbps)/8e3, "the port's rate"))
		case d.LinkMbps() > 0:
			bounds = append(bounds, model.PortBound(d.LinkMbps(), e.Local.MTU, e.Local.LinkLayer != verbs.LinkInfiniBand, !e.Local.GID.Addr().Is4()))
			_, name, _ := strings.Cut(d.Name, ":")
			if now, best, ok := pcie.Find(machine, "sys/class/infiniband/"+name).Links(machine); ok {
				why := now.String()
				if now != best {
					why += ", and " + best.String() + " is what device and slot can do"
				}
				bounds = append(bounds, model.Bound{Kind: model.PCIe, Rate: now.Rate(), Why: why})
			}
		}
	}
	known := bounds[:0]
	for _, b := range bounds {
		if b.Rate > 0 {
			known = append(known, b)
		}
	}
	least, ok := model.Least(known)
	if !ok {
		return Possible{}
	}
	return Possible{Rate: timing.SixPlaces(least.Rate / 1e9), By: least.Kind, Why: fmt.Sprintf("rank %d: %s", m.Ring.Rank(), least.Why)}
}

// machine has the files of this host, sysfs among them.
var machine = os.DirFS("/")

func gigabytes(kind model.Kind, rate float64, why string) model.Bound {
	return model.Bound{Kind: kind, Rate: rate * 1e9, Why: why}
}

// ofHosts are the ranks' measurements, each with the best of what the ranks of its host have seen
// where that was measured.
func ofHosts(all []told) (list []RankMeasurement) {
	type part struct {
		host string
		by   model.Kind
	}
	best := map[part]Possible{}
	for _, t := range all {
		if at := (part{t.Host, t.By}); t.Rate > best[at].Rate {
			best[at] = t.Possible
		}
	}
	for _, t := range all {
		if t.Host != "" && (t.By == model.CPU || t.By == model.Memory) {
			t.Possible = best[part{t.Host, t.By}]
		}
		list = append(list, t.RankMeasurement)
	}
	return list
}

// leastPossible is the lower of two, of which one may not be known.
func leastPossible(p, q Possible) Possible {
	if p.Rate == 0 || q.Rate > 0 && q.Rate < p.Rate {
		return q
	}
	return p
}

// exceeded by more than that a bound was none: it was measured while others had the CPU.
const exceeded = 1.2

// share is how much of what is possible a busbw is, in percent; nil if that is not known.
func (p Possible) share(busBW float64) *float64 {
	if p.Rate == 0 || busBW > exceeded*p.Rate {
		return nil
	}
	share := math.Round(busBW/p.Rate*1e3) / 10
	return &share
}

// percent is the share behind a figure.
func (p Possible) percent(busBW float64) string {
	share := p.share(busBW)
	if share == nil {
		return ""
	}
	return fmt.Sprintf(", %.0f %%", *share)
}

// text is the share in words.
func (p Possible) text(busBW float64) string {
	if p.share(busBW) == nil {
		return ""
	}
	return fmt.Sprintf("%s of the possible %s (%s)", p.percent(busBW), render.Figure(p.Rate), p.By)
}

// whyPossible says why no more is.
func (p Possible) whyPossible() []render.Line {
	if p.Rate == 0 {
		return nil
	}
	return []render.Line{{Text: fmt.Sprintf("possible: %s GB/s by %s of %s", render.Figure(p.Rate), p.By, p.Why)}}
}

// floor is the least busbw that is good: in GB/s, or as a share of what is possible.
type floor struct {
	rate  float64
	share float64 // 0.8 is 80 %
}

func (f floor) String() string {
	if f.share > 0 {
		return strconv.FormatFloat(f.share*100, 'g', -1, 64) + "%"
	}
	return strconv.FormatFloat(f.rate, 'g', -1, 64)
}

func floorFlag(fs *pflag.FlagSet) {
	fs.Var(&command.Parsed[floor]{Kind: "GB/s", Parse: parseFloor}, "floor", "exit with 1 if busbw is below this, or 80%: of what is possible")
}

func parseFloor(text string) (f floor, err error) {
	number, percent := strings.CutSuffix(strings.TrimSpace(text), "%")
	v, err := strconv.ParseFloat(number, 64)
	switch {
	case percent && (err != nil || !(v > 0 && v <= 100)):
		return f, fmt.Errorf("expected a share above 0%% and up to 100%% of what is possible, such as 80%%")
	case percent:
		return floor{share: v / 100}, nil
	case err != nil || !(v >= 0) || v > 1e9:
		return f, fmt.Errorf("expected a bandwidth in GB/s (1e9 bytes) of zero or more, such as 1.5, or a share of what is possible, such as 80%%")
	}
	return floor{rate: v}, nil
}

// of is the floor in GB/s.
func (f floor) of(p Possible) (float64, error) {
	switch {
	case f.share == 0:
		return f.rate, nil
	case p.Rate == 0:
		return 0, exit.Sharedf(exit.Usage, "--floor %s: what the edges can carry is not known, since their devices do not say: expected a bandwidth in GB/s", f)
	}
	return f.share * p.Rate, nil
}
