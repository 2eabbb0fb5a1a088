package path

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"ringcli/cli/doctor"
	"ringcli/cli/render"
	"ringcli/ring/path"
	"ringcli/verbs/route"
)

// Check is what of a path is looked at.
type Check string

// The checks.
const (
	checkRoute Check = "route"
	checkSize  Check = "size"
	checkMarks Check = "marks"
	checkPorts Check = "ports"
	checkLoss  Check = "loss"
)

// Checks are all of them, in the order of what is shown.
var Checks = []Check{checkRoute, checkSize, checkMarks, checkPorts, checkLoss}

// PathCheck is one check of what a rank sends to a neighbour.
type PathCheck struct {
	Command string         `json:"command"`
	OK      bool           `json:"ok"` // neither a warning nor a failure
	From    int            `json:"from"`
	To      int            `json:"to"`
	Device  string         `json:"device"` // the sender's
	Check   Check          `json:"check"`
	Verdict doctor.Verdict `json:"verdict"`
	Value   string         `json:"value"`
	// Expected and Fix are empty where all is well.
	Expected string `json:"expected"`
	Fix      string `json:"fix"`
	// Bytes is the longest packet that arrived, headers included; of size.
	Bytes int `json:"bytes,omitempty"`
	// Needs are the bytes of the queue pair's longest packet; of size.
	Needs int `json:"needs,omitempty"`
	// Sent and Arrived are packets of the device, and KernelSent and KernelArrived those of the
	// kernel's UDP; of loss.
	Sent          int          `json:"sent,omitempty"`
	Arrived       int          `json:"arrived,omitempty"`
	KernelSent    int          `json:"kernel_sent,omitempty"`
	KernelArrived int          `json:"kernel_arrived,omitempty"`
	Marks         []Marked     `json:"marks,omitempty"`
	Ports         []SourcePort `json:"ports,omitempty"`
}

// Marked is what became of packets of one traffic class.
type Marked struct {
	Sent    uint8 `json:"sent"`    // DSCP times 4, and ECN
	Arrived *int  `json:"arrived"` // the same; null: none came
}

// SourcePort is how packets went by one UDP source port.
type SourcePort struct {
	Port    uint16  `json:"port"`
	Sent    int     `json:"sent"`
	Arrived int     `json:"arrived"`
	RTT     float64 `json:"rtt_us"`   // median, there and back; 0: no answer
	Later   float64 `json:"later_us"` // median, than packets of the fastest port, in this direction
}

var moods = map[doctor.Verdict]render.Mood{doctor.Pass: render.Good, doctor.Warn: render.Fair, doctor.Fail: render.Bad, doctor.Skip: render.Faint}

// Row implements render.Tabular.
func (p PathCheck) Row() ([]render.Column, []render.Cell) {
	head, row := render.Select(p, "From=path|8|left; Verdict=verdict|7; Check=check|6; Value=found, expected, and what mends it")
	row[0].Text = fmt.Sprintf("%d -> %d", p.From, p.To)
	row[1].Mood = moods[p.Verdict]
	last := &row[3]
	if p.Expected != "" {
		last.Text += ": expected " + p.Expected
	}
	if p.Fix != "" {
		last.Text += ": " + p.Fix
	}
	if p.Verdict == doctor.Skip {
		last.Mood = render.Faint
	}
	return head, row
}

// says makes a row.
func (w *way) says(c Check, v doctor.Verdict, format string, args ...any) PathCheck {
	return PathCheck{
		Command: name, OK: v == doctor.Pass || v == doctor.Skip, From: w.own.Rank, To: w.own.Peer, Device: w.own.Device,
		Check: c, Verdict: v, Value: fmt.Sprintf(format, args...),
	}
}

// but says what it should be, and what mends it.
func (p PathCheck) but(expected, fix string) PathCheck {
	p.Expected, p.Fix = expected, fix
	return p
}

// judge says what came of each check.
func (w *way) judge() (rows []PathCheck) {
	if w.own.Unable != "" {
		return []PathCheck{w.says(checkRoute, doctor.Skip, "%s", w.own.Unable)}
	}
	return []PathCheck{w.route(), w.size(), w.marked(), w.bySource(), w.loss()}
}

func (w *way) route() PathCheck {
	gid := fmt.Sprintf("GID %d (%s) %s of %s to %s", w.own.GIDIndex, w.own.GIDType, w.own.Addr, cmp.Or(w.own.NetDev, "?"), w.peer.Addr)
	switch {
	case w.hopErr != nil:
		return w.says(checkRoute, doctor.Fail, "%s: %v", gid, w.hopErr).but("a route", fmt.Sprintf("ip route get %s from %s; ip rule", w.peer.Addr, w.own.Addr))
	case w.hop.Gateway.IsValid() && w.own.GIDType == "RoCE v1":
		return w.says(checkRoute, doctor.Fail, "%s: %s", gid, w.hop).but("a GID of RoCE v2: no router passes RoCE v1 on", "ringcli devices; connect with --gid-index")
	case !w.hop.Local && w.own.NetDev != "" && w.hop.NetDev != w.own.NetDev:
		return w.says(checkRoute, doctor.Warn, "%s: %s", gid, w.hop).but("by "+w.own.NetDev+", which has the GID",
			fmt.Sprintf("ip rule add from %s table 100; ip route add default dev %s table 100  # with its router; or another --gid-index", w.own.Addr, w.own.NetDev))
	}
	return w.says(checkRoute, doctor.Pass, "%s: %s", gid, w.hop)
}

// rdmaHeaders are BTH, RETH, immediate data and ICRC: what the longest packet of a queue pair
// has beside UDP's headers and the path MTU (InfiniBand specification, 9.2 and 9.3).
const rdmaHeaders = 12 + 16 + 4 + 4

// needs is the length in bytes of the longest packet of the queue pair.
func (w *way) needs() int { return w.own.PathMTU + path.Headers(w.own.Addr) + rdmaHeaders }

func (w *way) size() PathCheck {
	best, needs := w.search.Best, w.needs()
	most := w.own.NetMTU
	p := func(v doctor.Verdict, format string, args ...any) PathCheck {
		row := w.says(checkSize, v, format, args...)
		row.Bytes, row.Needs = best, needs
		return row
	}
	pair := fmt.Sprintf("the queue pair's MTU %d needs %d", w.own.PathMTU, needs)
	who := "; no router has reported a limit"
	if w.tooLong != nil {
		who = fmt.Sprintf("; %s says that its next link takes %d", w.tooLong.By, w.tooLong.MTU)
	}
	theirs := w.peer.NetMTU
	mends := fmt.Sprintf("tracepath -n %s  # finds the link", w.peer.Addr)
	if theirs > 0 && theirs < most {
		who += fmt.Sprintf("; %s of rank %d has MTU %d", w.peer.NetDev, w.own.Peer, theirs)
		if theirs == best {
			mends = fmt.Sprintf("ip link set dev %s mtu %d  # at rank %d, or %d at rank %d", w.peer.NetDev, most, w.own.Peer, theirs, w.own.Rank)
		}
	}
	switch {
	case best == 0 && w.short.arrived > 0:
		return p(doctor.Warn, "nothing arrives at UDP port %d, which was opened for the test, and what the device sends to another port does", w.peer.Target.Addr.Port()).but(
			"packets of the test, too", "--listen-port PORT with one that the firewall lets pass")
	case best == 0:
		return p(doctor.Fail, "nothing arrives at UDP port %d, which was opened for the test; TCP does", w.peer.Target.Addr.Port()).but(
			"packets of at least "+strconv.Itoa(path.Least(w.own.Addr))+" bytes", "look for a filter or a route that drops UDP: nft list ruleset; ip route get; --listen-port PORT")
	case needs > most && most > 0 && best == most:
		return p(doctor.Fail, "packets of up to %d bytes arrive, which is the MTU of %s; %s", best, w.own.NetDev, pair).but(
			fmt.Sprintf("an interface with MTU %d or more", needs), fmt.Sprintf("ip link set dev %s mtu %d; or connect with --mtu %d", w.own.NetDev, needs, fits(best, w)))
	case best < needs:
		return p(doctor.Fail, "packets of up to %d bytes arrive, longer ones do not (%s has MTU %d); %s%s", best, w.own.NetDev, most, pair, who).but(
			fmt.Sprintf("%d or more", needs), mends+fmt.Sprintf("; or connect with --mtu %d", fits(best, w)))
	case best < most && best < path.Most:
		return p(doctor.Warn, "packets of up to %d bytes arrive, longer ones do not (%s has MTU %d); %s%s", best, w.own.NetDev, most, pair, who).but(
			fmt.Sprintf("the MTU of %s, which other traffic counts on", w.own.NetDev), mends)
	}
	return p(doctor.Pass, "packets of up to %d bytes arrive, %s's MTU; %s", best, cmp.Or(w.own.NetDev, "the interface"), pair)
}

// fits is the greatest path MTU whose packets are at most so long; 256 is the least there is.
func fits(length int, w *way) int {
	mtu := 4096
	for mtu > 256 && mtu+path.Headers(w.own.Addr)+rdmaHeaders > length {
		mtu /= 2
	}
	return mtu
}

// markText writes a traffic class for people.
func markText(c uint8) string {
	return fmt.Sprintf("DSCP %d %s", c>>2, [...]string{"not ECT", "ECT(1)", "ECT(0)", "CE"}[c&3])
}

func (w *way) marked() PathCheck {
	var list []Marked
	var fine, wrong, lost []string
	fixes := map[string]bool{}
	for i, sent := range w.classes {
		m := Marked{Sent: sent}
		if i >= len(w.marks) || w.marks[i].Came == 0 {
			list, lost = append(list, m), append(lost, markText(sent))
			continue
		}
		arrived := int(w.marks[i].TOS)
		m.Arrived = &arrived
		list = append(list, m)
		switch got := uint8(arrived); {
		case got == sent:
			fine = append(fine, markText(sent))
		case got&^3 == sent&^3 && got&3 == 3 && sent&3 != 0: // a switch that is congested says so
			fine = append(fine, markText(sent)+" (marked CE: congestion on the way)")
		default:
			wrong = append(wrong, fmt.Sprintf("%s arrives as %s", markText(sent), markText(got)))
			if got&^3 != sent&^3 {
				fixes["have the switches trust DSCP, and no filter rewrite it"] = true
			}
			if got&3 != sent&3 {
				fixes["look for a tunnel, a router or a filter that clears ECN: DCQCN does without its marks"] = true
			}
		}
	}
	v, text := doctor.Pass, ""
	if len(fine) > 0 {
		text = strings.Join(fine, ", ") + ": as sent"
	}
	for _, part := range []string{strings.Join(wrong, ", "), suffixed(strings.Join(lost, ", "), ": none came")} {
		if part != "" {
			v = doctor.Warn
			text = strings.TrimPrefix(text+"; "+part, "; ")
		}
	}
	row := w.says(checkMarks, v, "%s", text)
	switch {
	case len(lost) == len(w.classes) && w.search.Best == 0:
		row = w.says(checkMarks, doctor.Skip, "nothing arrives: see size")
	case v == doctor.Warn:
		row = row.but("what was sent", strings.Join(slices.Sorted(maps.Keys(fixes)), "; "))
		if len(wrong) == 0 {
			row.Fix = "look for a filter, or a queue of a switch that drops one class"
		}
	}
	if strings.HasPrefix(w.own.Device, "ibv:") {
		row.Value += "; the kernel's packets: those of " + w.own.Device + " no program sees"
	}
	row.Marks = list
	return row
}

const (
	// muchLater is by how much a port must be later than the fastest to be named, and by
	// which part of the round trip: threads that wait for a turn are late by less.
	muchLater, laterPart = 500 * time.Microsecond, 0.5
	// fewLost is which part a port may lose without a word: one in ten. What all ports lose is
	// loss's: a port stands out by more than outstanding times what the best quarter lose.
	fewLost, outstanding = 10, 3
	// fewestLost packets, and leastLost of all, are a loss: a busy machine drops one or two.
	fewestLost, leastLost = 3, 0.005
)

// loss counts the packets of this direction by themselves: what others lose is no measure.
func (w *way) loss() PathCheck {
	kernel := w.kernel()
	row := func(v doctor.Verdict, format string, args ...any) PathCheck {
		p := w.says(checkLoss, v, format, args...)
		p.Sent, p.Arrived, p.KernelSent, p.KernelArrived = w.short.sent, w.short.arrived, kernel.sent, kernel.arrived
		return p
	}
	var words []string
	lossy := false
	for _, of := range []struct {
		sent
		whose string
	}{{w.short, "the device"}, {kernel, "the kernel"}} {
		if of.arrived == 0 {
			continue // not sent, or a filter's: another row's
		}
		lost := of.sent.sent - of.arrived
		share := float64(lost) / float64(of.sent.sent)
		words = append(words, fmt.Sprintf("%d of %d packets of %s arrive (%.1f %% lost)", of.arrived, of.sent.sent, of.whose, 100*share))
		lossy = lossy || lost >= fewestLost && share >= leastLost
	}
	switch text := strings.Join(words, "; "); {
	case words == nil:
		return row(doctor.Skip, "nothing arrives: see size")
	case w.short.sent > 0 && w.short.arrived == 0:
		port := cmp.Or(w.peer.UDPPort, route.RoCEPort)
		return row(doctor.Fail, "no packet of the device arrives at UDP port %d of %s, also no short one; at UDP port %d packets do", port, w.peer.Device, w.peer.Target.Addr.Port()).but(
			"all of them", fmt.Sprintf("look for a filter of UDP port %d from rank %d to rank %d: nft list ruleset; iptables -L -v", port, w.own.Rank, w.own.Peer))
	case lossy:
		return row(doctor.Warn, "%s", text).but("all of them", fmt.Sprintf("see what drops them from rank %d to rank %d: ip -s link; ethtool -S; nstat -az UdpRcvbufErrors; the switch's counters", w.own.Rank, w.own.Peer))
	default:
		return row(doctor.Pass, "%s", text)
	}
}

// kernel counts the packets of the source ports that lose no more than others.
func (w *way) kernel() (all sent) {
	lossy := w.lossyPorts()
	for i, e := range w.echoes {
		if !lossy[i] {
			all.sent, all.arrived = all.sent+e.Sent, all.arrived+w.arrivedBy(i)
		}
	}
	return all
}

func (w *way) arrivedBy(port int) int {
	if port < len(w.ports) {
		return w.ports[port].Came
	}
	return 0
}

// lossyPorts tells which source ports lose much, and much more than the others.
func (w *way) lossyPorts() []bool {
	var lost []int
	for i, e := range w.echoes {
		lost = append(lost, e.Sent-w.arrivedBy(i))
	}
	lossy := make([]bool, len(lost))
	for i, sorted := 0, slices.Sorted(slices.Values(lost)); i < len(lost); i++ {
		lossy[i] = lost[i]*fewLost > w.echoes[i].Sent && lost[i] > outstanding*sorted[len(sorted)/4]
	}
	return lossy
}

func (w *way) bySource() PathCheck {
	var list []SourcePort
	least := int64(math.MaxInt64)
	var rtts []int64
	for i, e := range w.echoes {
		if i < len(w.ports) && w.ports[i].Came > 0 {
			least = min(least, w.ports[i].Later)
		}
		if e.Back > 0 {
			rtts = append(rtts, int64(e.RTT))
		}
	}
	typical := path.Median(rtts)
	lossy := w.lossyPorts()
	var words, wrong []string
	broken, whole := false, 0
	for i, e := range w.echoes {
		p := SourcePort{Port: e.Port, Sent: e.Sent, RTT: float64(e.RTT.Nanoseconds()) / 1e3}
		var later int64
		if i < len(w.ports) && w.ports[i].Came > 0 {
			later, p.Arrived = w.ports[i].Later-least, w.ports[i].Came
		}
		p.Later = float64(later) / 1e3
		list = append(list, p)
		text := fmt.Sprintf("%d no answer", p.Port)
		if e.Back > 0 {
			text = fmt.Sprintf("%d %s", p.Port, render.Figure(p.RTT))
		}
		words = append(words, fmt.Sprintf("%s (+%s)", text, render.Figure(p.Later)))
		switch lost := p.Sent - p.Arrived; {
		case lost == p.Sent:
			wrong, broken = append(wrong, fmt.Sprintf("source port %d: %d of %d lost", p.Port, lost, p.Sent)), true
		case lossy[i]:
			wrong = append(wrong, fmt.Sprintf("source port %d: %d of %d lost", p.Port, lost, p.Sent))
		case later > int64(muchLater) && float64(later) > laterPart*float64(typical):
			wrong = append(wrong, fmt.Sprintf("source port %d: later by %s us than the fastest", p.Port, render.Figure(p.Later)))
		default:
			whole++
		}
	}
	text := "us there and back: " + strings.Join(words, ", ")
	row := w.says(checkPorts, doctor.Pass, "%s", text)
	switch {
	case w.search.Best == 0 && whole == 0:
		row = w.says(checkPorts, doctor.Skip, "nothing arrives: see size")
	case len(wrong) > 0 && whole == 0:
		row = w.says(checkPorts, doctor.Warn, "%s; %s", strings.Join(wrong, "; "), text).but("what is sent arrives", "see what drops it: ip -s link; ethtool -S; the switch's counters")
	case len(wrong) > 0:
		v := doctor.Warn
		if broken {
			v = doctor.Fail
		}
		row = w.says(checkPorts, v, "%s; %s", strings.Join(wrong, "; "), text).but("all ports alike",
			"one path of several (ECMP, LAG) is broken, lossy or longer: traceroute -U --sport=PORT finds it; the switch's members of the group")
	}
	row.Ports = list
	return row
}

func suffixed(text, suffix string) string {
	if text == "" {
		return ""
	}
	return text + suffix
}
