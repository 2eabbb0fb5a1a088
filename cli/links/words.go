package links

import (
	"fmt"
	"slices"

	"ringcli/cli/render"
	"ringcli/cli/timing"
	"ringcli/ring/diagnose/links"
)

// finding puts a finding into words.
func (c *report) finding(f *links.Finding) LinkFinding {
	out := LinkFinding{
		Command: commandName, Finding: string(f.Kind), Culprit: string(f.Place), From: slices.Clone(f.From), To: slices.Clone(f.To), BothWays: f.BothWays,
		Ratio: timing.SixPlaces(f.Ratio), AgainRatio: timing.SixPlaces(f.AgainRatio), Partners: f.Partners, Of: f.Of, Spreads: timing.ThreePlaces(f.Spreads),
		Again: f.Again, Confidence: "suspect", FromHosts: c.hostsOf(f.From), ToHosts: c.hostsOf(f.To),
	}
	if f.From == nil {
		out.From = []int{}
	}
	if f.To == nil {
		out.To = []int{}
	}
	if f.Names[0] != "" {
		out.Groups = f.Names[:]
	}
	if f.Certain {
		out.Confidence = "certain"
	}
	does := what(f)
	if f.Kind == links.Dead {
		out.Arrives, out.ArrivesBack = c.reach(f)
		does = deaf(f, out.Arrives, out.ArrivesBack)
	}
	out.Text = c.who(f) + " " + does + ": " + evidence(f, len(c.hosts))
	out.Next = next(f, c.oneHost(f), out.Arrives, out.ArrivesBack)
	return out
}

func (c *report) hostsOf(ranks []int) []string {
	list := []string{}
	for _, r := range ranks {
		if !slices.Contains(list, c.hosts[r]) {
			list = append(list, c.hosts[r])
		}
	}
	return list
}

// who names the culprit.
func (c *report) who(f *links.Finding) string {
	group := func(i int, ranks []int) string {
		if f.Names[i] != "" {
			return "group " + f.Names[i]
		}
		return names(ranks, c.hosts)
	}
	to := "to"
	if f.BothWays {
		to = "to and from"
	}
	switch f.Place {
	case links.Sender, links.Node:
		return names(f.From, c.hosts)
	case links.Receiver:
		return names(f.To, c.hosts)
	case links.OnePair:
		return fmt.Sprintf("only %s %s %s", names(f.From, c.hosts), to, names(f.To, c.hosts))
	}
	return fmt.Sprintf("%s %s %s", group(0, f.From), to, group(1, f.To))
}

// what says what it does.
func what(f *links.Finding) string {
	does := map[links.Place]string{links.Sender: "sends", links.Receiver: "receives", links.Node: "sends and receives"}[f.Place]
	switch f.Kind {
	case links.Dead:
		return "has no connection"
	case links.Lossy:
		if does != "" {
			return fmt.Sprintf("%s with %s of the packets lost", does, percent(f.Ratio))
		}
		return "loses " + percent(f.Ratio) + " of the packets"
	case links.Late:
		return fmt.Sprintf("has %.1f times the latency of the others", milder(f))
	}
	if does == "" {
		return fmt.Sprintf("at %.2f of the rest", milder(f))
	}
	return fmt.Sprintf("%s at %.2f of the others", does, milder(f))
}

// deaf says what does not arrive, as probed.
func deaf(f *links.Finding, there, back *int) string {
	does, ends := "carries", "the other direction is well"
	switch f.Place {
	case links.Sender:
		does, there, back, ends = "sends", back, there, "what is sent to it arrives"
	case links.Receiver:
		does, ends = "receives", "what it sends arrives"
	case links.Node:
		does = "sends and receives"
	}
	switch {
	case there == nil || back == nil || *there == reachAll || *there == reachNone && *back == reachNone:
		return what(f)
	case *back != reachAll:
		ends = ""
	default:
		ends = ", and " + ends
	}
	switch *there {
	case reachNone:
		return does + " nothing" + ends
	case 0:
		return does + " nothing but the shortest packets" + ends
	}
	return fmt.Sprintf("%s nothing longer than %d bytes%s", does, *there, ends)
}

// milder is the ratio that is told: the first may have been disturbed besides.
func milder(f *links.Finding) float64 {
	switch {
	case f.Again == 0 || f.AgainRatio == 0 || f.Place == links.Group: // what groups share is not as full again
		return f.Ratio
	case f.Kind == links.Late:
		return min(f.Ratio, f.AgainRatio)
	}
	return max(f.Ratio, f.AgainRatio)
}

func percent(v float64) string { return render.Figure(100*v) + "%" }

// evidence says what that is concluded from.
func evidence(f *links.Finding, ranks int) (text string) {
	switch {
	case f.Place == links.OnePair && ranks == 2 && !f.BothWays && f.Kind == links.Slow:
		text = "beside the other direction"
	case f.Place == links.OnePair && ranks == 2:
		text = "there is no other pair"
	case f.Place == links.OnePair:
		text = "both do well with others"
	default:
		text = fmt.Sprintf("%d of %d pairs", f.Partners, f.Of)
	}
	switch {
	case f.Spreads >= links.NamedSpreads:
		text += fmt.Sprintf(", %.0f spreads off", f.Spreads)
	case f.Spreads > 0: // that is enough whatever the noise is
		text += fmt.Sprintf(", tenfold, which is %.1f spreads", f.Spreads)
	}
	if f.Again == 0 {
		text += "; not measured again"
	} else {
		text += fmt.Sprintf("; again in %s measured anew", count(f.Again, "pair"))
	}
	if !f.Certain {
		text += "; a suspect"
	}
	return text
}

// oneHost tells whether all that a finding compares is within one host.
func (c *report) oneHost(f *links.Finding) bool {
	hosts := c.hosts
	if f.Place == links.OnePair {
		hosts = c.hostsOf(slices.Concat(f.From, f.To))
	}
	return !slices.ContainsFunc(hosts, func(h string) bool { return h != hosts[0] })
}

// next is what to look at.
func next(f *links.Finding, oneHost bool, there, back *int) string {
	if oneHost {
		return "no cable is between ranks of one host: which CPUs the ranks run on, NUMA placement, what else runs there"
	}
	if short := func(n *int) bool { return n != nil && *n != reachNone && *n != reachAll }; short(there) || short(back) {
		return "the MTU of each port on the way: `ip link`, the switch port, `ping -M do -s 4096`; a ring with a smaller --mtu"
	}
	switch f.Place {
	case links.OnePair:
		switch f.Kind {
		case links.Dead:
			return "the path between the two: a filter on UDP 4791, a route, an ACL, a cable; `connect --list` with these two alone"
		case links.Lossy:
			return "not known; what only these two share: the ports' error and discard counters on every switch of the way, optics, FEC"
		case links.Late:
			return "not known; what only these two share: the route (another way round, a tunnel), queues that stand full, `ping` and `traceroute` between the two"
		}
		return "not known; what only these two share: the speed and the errors of the ports on the way, ECMP that puts this flow on a full link"
	case links.Group:
		if f.Names[0] == "" {
			return "a link that they share: name the groups of ranks on either side of it, in the list or by --groups"
		}
		return "what joins the two groups: uplinks that are down or oversubscribed, ECMP, a line card"
	}
	switch f.Kind {
	case links.Dead:
		return "its port and its address: `ibstat` or `ip link`, UDP 4791 filtered, the GID, the switch port"
	case links.Lossy:
		return "its port: errors and discards of NIC and switch port, optics, PFC and ECN settings, socket buffers where it is software"
	case links.Late:
		return "its CPU and NIC: power saving (C-states), interrupts, a busy host, the firmware"
	}
	side := "its port or PCIe: speed and width of the link (`lspci -vv`, LnkSta), the port's active rate, "
	if f.Place == links.Sender {
		return side + "pause frames that it receives, CPU frequency, IOMMU"
	}
	return side + "pause frames that it sends, memory and NUMA placement, PCIe credits"
}
