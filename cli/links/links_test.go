package links

import (
	"math"
	"slices"
	"strings"
	"testing"

	"ringcli/cli/exit"
	"ringcli/ring/diagnose/links"
)

func TestRanges(t *testing.T) {
	group, err := ranges("0-1,3", 5)
	if want := []string{"0-1", "0-1", "", "3", ""}; err != nil || !slices.Equal(group, want) {
		t.Errorf("%q, %v: expected %q", group, err, want)
	}
	for _, bad := range []string{"0,0", "x", "0-1,,2", "4-9"} {
		if _, err := ranges(bad, 5); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// One end's measurements and the other's become the two directions of a pair: the best of
// several, without a connection if there was none at either end.
func TestResults(t *testing.T) {
	r := newResults(3, nil)
	r.add([][]figures{
		{{To: 1, Asks: true, P50: 4, P99: 9, Alone: 10, Both: 8, Lost: 2, Sent: 100}, {To: 1, Asks: true, P50: 3, P99: 19, Alone: 9, Both: 9, Lost: 1, Sent: 50}, {To: 2, Asks: true, P50: 4, Alone: 10}},
		{{To: 0, Alone: 11}, {To: 0, Alone: 12}},
		{{To: 0, Dead: true, Why: "lost"}, {To: 7}},
	})
	there, back := r.best[r.at(0, 1)], r.best[r.at(1, 0)]
	if there.P50 != 3 || there.P99 != 9 || there.Alone != 10 || there.Both != 9 || there.Lost != 3 || there.Sent != 150 || back.Alone != 12 || back.P50 != 3 {
		t.Errorf("%+v and %+v", there, back)
	}
	f := r.figures
	if !f.Dead[2] || !f.Dead[6] || !math.IsNaN(f.Alone.At(0, 2)) || f.Latency.At(1, 0) != 3 {
		t.Errorf("%+v", f)
	}
	// The next best differs by a ninth and a twelfth.
	if f.Noise < 0.08 || f.Noise > 0.16 {
		t.Errorf("noise %.3f", f.Noise)
	}
	if r.measured != 4 {
		t.Errorf("%d pairs, expected 4: there is no rank 7", r.measured)
	}
}

// testReport is of five ranks on four hosts.
func testReport() *report {
	return &report{hosts: []string{"a", "b", "c", "d", "d"}, mode: modeMesh, results: newResults(5, nil)}
}

func TestWords(t *testing.T) {
	c := testReport()
	for want, f := range map[string]links.Finding{
		"rank 1 (b) sends at 0.40 of the others: 4 of 4 pairs, 12 spreads off; again in 3 pairs measured anew": {
			Kind: links.Slow, Place: links.Sender, From: []int{1}, Ratio: 0.2, AgainRatio: 0.4, Partners: 4, Of: 4, Spreads: 12, Again: 3, Certain: true,
		},
		"rank 2 (c) receives with 2.000% of the packets lost: 3 of 4 pairs; not measured again; a suspect": {
			Kind: links.Lossy, Place: links.Receiver, To: []int{2}, Ratio: 0.02, Partners: 3, Of: 4,
		},
		"only rank 0 (a) to and from rank 3 (d) has 170.5 times the latency of the others: both do well with others, 60 spreads off; again in 1 pair measured anew": {
			Kind: links.Late, Place: links.OnePair, From: []int{0}, To: []int{3}, BothWays: true, Ratio: 170.5, Partners: 2, Of: 2, Spreads: 60, Again: 1, Certain: true,
		},
		"rank 1 (b) receives at 0.05 of the others: 4 of 4 pairs, tenfold, which is 3.5 spreads; not measured again; a suspect": {
			Kind: links.Slow, Place: links.Receiver, To: []int{1}, Ratio: 0.05, Partners: 4, Of: 4, Spreads: 3.5,
		},
		"group A to group B at 0.50 of the rest: 6 of 6 pairs, 9 spreads off; again in 5 pairs measured anew": {
			Kind: links.Slow, Place: links.Group, From: []int{0, 1}, To: []int{2, 3, 4}, Names: [2]string{"A", "B"}, Ratio: 0.5, Partners: 6, Of: 6, Spreads: 9, Again: 5, Certain: true,
		},
		"rank 4 (d) has no connection: 7 of 8 pairs; again in 2 pairs measured anew; a suspect": {
			Kind: links.Dead, Place: links.Node, From: []int{4}, To: []int{4}, Partners: 7, Of: 8, Again: 2,
		},
	} {
		got := c.finding(&f)
		if got.Text != want || got.Next == "" || got.OK {
			t.Errorf("%q, expected %q", got.Text, want)
		}
	}
}

// Where there is no connection, the finding says which packets arrive in which direction, and names
// one rank once.
func TestWhatArrives(t *testing.T) {
	node := links.Finding{Kind: links.Dead, Place: links.Node, From: []int{3}, To: []int{3}, Partners: 8, Of: 8, Again: 8}
	pair := links.Finding{Kind: links.Dead, Place: links.OnePair, From: []int{0}, To: []int{3}, BothWays: true, Partners: 2, Of: 2, Again: 2}
	for _, c := range []struct {
		f           links.Finding
		there, back int // that arrives at rank 3, and of what it sends
		want        string
		place       links.Place
		bad         []string
	}{
		{node, reachNone, reachAll, "rank 3 (d) receives nothing, and what it sends arrives", links.Receiver, []string{"d"}},
		{node, reachAll, reachNone, "rank 3 (d) sends nothing, and what is sent to it arrives", links.Sender, []string{"d"}},
		{node, 1024, reachAll, "rank 3 (d) receives nothing longer than 1024 bytes, and what it sends arrives", links.Receiver, []string{"d"}},
		{node, 1024, 1024, "rank 3 (d) sends and receives nothing longer than 1024 bytes", links.Node, []string{"d"}},
		{node, 0, 0, "rank 3 (d) sends and receives nothing but the shortest packets", links.Node, []string{"d"}},
		{node, reachNone, reachNone, "rank 3 (d) has no connection", links.Node, []string{"d"}},
		{node, reachAll, reachAll, "rank 3 (d) has no connection", links.Node, []string{"d"}},
		{pair, 1024, reachAll, "only rank 0 (a) to rank 3 (d) carries nothing longer than 1024 bytes, and the other direction is well", links.OnePair, nil},
		{pair, reachAll, reachNone, "only rank 3 (d) to rank 0 (a) carries nothing, and the other direction is well", links.OnePair, nil},
		{pair, reachNone, reachNone, "only rank 0 (a) to and from rank 3 (d) has no connection", links.OnePair, nil},
	} {
		r := testReport()
		r.hosts = []string{"a", "b", "c", "d", "e"}
		r.arrived = map[links.Pair]int{{From: 0, To: 3}: c.there, {From: 3, To: 0}: c.back, {From: 1, To: 3}: c.there, {From: 3, To: 1}: c.back}
		f := c.f
		r.direct(&f)
		got := r.finding(&f)
		if text, _, _ := strings.Cut(got.Text, ":"); text != c.want || f.Place != c.place {
			t.Errorf("%d there, %d back: %s %q, expected %s %q", c.there, c.back, f.Place, text, c.place, c.want)
		}
		if _, bad := r.lists(&links.Verdict{Findings: []links.Finding{f}}); !slices.Equal(bad, c.bad) {
			t.Errorf("%s: bad hosts %q, expected %q", c.want, bad, c.bad)
		}
	}
}

// Ranks of one host share no cable.
func TestNextOfOneHost(t *testing.T) {
	c := testReport()
	for _, f := range []links.Finding{
		{Kind: links.Slow, Place: links.OnePair, From: []int{3}, To: []int{4}, Ratio: 0.5}, {Kind: links.Slow, Place: links.OnePair, From: []int{0}, To: []int{4}, Ratio: 0.5},
	} {
		one := f.From[0] == 3
		if next := c.finding(&f).Next; strings.HasPrefix(next, "no cable") != one || strings.Contains(next, "one cable") {
			t.Errorf("%v to %v: %q", f.From, f.To, next)
		}
	}
}

// Whoever is named is bad; of a pair nobody knows which end; groups are the network's.
func TestLists(t *testing.T) {
	c := testReport()
	good, bad := c.lists(&links.Verdict{Findings: []links.Finding{
		{Place: links.Sender, From: []int{1}}, {Place: links.OnePair, From: []int{0}, To: []int{3}}, {Place: links.Group, From: []int{0, 1}, To: []int{2, 3}},
	}})
	if !slices.Equal(good, []string{"c"}) || !slices.Equal(bad, []string{"b"}) {
		t.Errorf("good %q, bad %q", good, bad)
	}
}

func TestShade(t *testing.T) {
	for ratio, want := range map[float64]byte{1.3: '.', 0.95: '.', 0.94: '9', 0.5: '5', 0.04: '0', -1: 'x', math.NaN(): ' '} {
		if got := shade(ratio); got != want {
			t.Errorf("%v: %q, expected %q", ratio, got, want)
		}
	}
	f := links.NewFigures(heatMost + 1) // two ranks share a place
	for i := range 4 {
		f.Alone.Set(i, i+1, 2)
		f.Latency.Set(i, i+1, 2)
	}
	f.Alone.Set(2, 3, 1)
	f.Latency.Set(2, 3, 4)
	f.Dead[4*f.N+0] = true
	for _, h := range []heatMap{heatOf(f, f.Alone, "bandwidth", "GB/s", true), heatOf(f, f.Latency, "latency", "us", false)} {
		if len(h.Rows) != 33 || h.Rows[0].Text[5:8] != ".. " || h.Rows[1].Text[5:8] != " 5." || h.Rows[2].Text[5:8] != "x  " || h.Rows[0].Bad() || !h.Rows[1].Bad() {
			t.Errorf("%+v", h)
		}
	}
	if h := heatOf(f, f.Both, "both", "GB/s", true); h.Rows != nil {
		t.Errorf("of nothing: %+v", h)
	}
}

// Nobody tries any more to connect what could not be, but a rank that works with others is not
// taken for one that is gone because of one pair, or of a rank that is.
func TestGone(t *testing.T) {
	g := newGone(8, goneTries)
	bad, well := roundTold{Failed: true}, roundTold{Worked: true}
	for range goneRanks {
		g.note(0, 2, bad, well)
	}
	if !g.is(2, 0) || g.is(0, 1) || g.is(2, 1) {
		t.Error("of a pair without a connection the pair alone is not tried any more")
	}
	g = newGone(8, 1)
	for other := 1; other < 1+goneRanks; other++ {
		if g.is(0, other) {
			t.Errorf("rank 0 is gone after %d failures", other-1)
		}
		g.note(0, other, bad, bad)
		g.note(other, 7, well, well)
	}
	if !g.is(0, 6) || g.is(1, 6) || g.is(7, 6) {
		t.Error("rank 0 alone is to be gone")
	}
}

// Ranks that were told to measure in different ways say so at once.
func TestAlike(t *testing.T) {
	c := testReport()
	c.how = howTo{bytes: 65536, small: 8, outstanding: 16, span: defaultTime}
	own := c.plan()
	c.how.bytes = 4096
	if err := alike([]string{own, own}); err != nil {
		t.Error(err)
	}
	err := alike([]string{own, own, c.plan()})
	if want := "--mesh --time 100ms --size 65536 --small 8 --outstanding 16 --passes 0, and rank 2 with --mesh --time 100ms --size 4096"; err == nil || !strings.Contains(err.Error(), want) || exit.Code(err) != exit.Usage {
		t.Errorf("%v: expected %q", err, want)
	}
}

// A pair that had no connection in the first pass and has one in those that follow is measured
// as others are.
func TestResultsOfAPairThatCameBack(t *testing.T) {
	r := newResults(2, nil)
	well := [][]figures{{{To: 1, Asks: true, P50: 3, P99: 9, Alone: 10, Both: 8, Sent: 100}}, {{To: 0, Alone: 11, Both: 8, Sent: 100}}}
	r.add([][]figures{{{To: 1, Asks: true, Dead: true, Why: "lost"}}, {{To: 0, Dead: true, Why: "lost"}}})
	if f := r.figures; !f.Dead[1] || !f.Dead[2] {
		t.Fatalf("%+v: expected no connection", f)
	}
	r.add(well)
	r.add(well)
	f := r.figures
	if f.Dead[1] || f.Dead[2] || r.best[1].Dead || f.Alone.At(0, 1) != 10 || f.Both.At(1, 0) != 8 || f.Latency.At(1, 0) != 3 || f.Packets.At(0, 1) != 200 {
		t.Errorf("%+v and %+v", f, r.best[1])
	}
}

// What was measured again counts as a further pass does: the better figure is shown. A connection
// that comes back in most is there, one that goes is not told, and a pair to leave is left.
func TestResultsAgain(t *testing.T) {
	r, again := newResults(3, nil), newResults(3, nil)
	r.add([][]figures{
		{{To: 1, Asks: true, P50: 90, P99: 99, Alone: 0.24, Sent: 4}, {To: 2, Asks: true, P50: 3, Alone: 5, Both: 4}},
		{{To: 0, Alone: 9}, {To: 2, Asks: true, Dead: true, Why: "lost"}},
		{{To: 0, Alone: 8}, {To: 1, Dead: true, Why: "lost"}},
	})
	again.add([][]figures{
		{{To: 1, Asks: true, P50: 3, P99: 9, Alone: 10, Both: 8, Sent: 100}, {To: 2, Asks: true, P50: 3, Alone: 7}, {To: 2, Dead: true, Asks: true}},
		{{To: 0, Alone: 8, Both: 8}, {To: 2, Asks: true, P50: 4, Alone: 11}, {To: 2, Asks: true, P50: 5, Alone: 12}},
		{{To: 0, Alone: 9}, {To: 0, Dead: true}, {To: 1, Alone: 13}, {To: 1, Alone: 12}},
	})
	r.takeAgain(again, func(p links.Pair) bool { return p == links.Pair{From: 2, To: 0} })
	for at, want := range map[links.Pair]float64{{From: 0, To: 1}: 10, {From: 1, To: 0}: 9, {From: 0, To: 2}: 7, {From: 2, To: 0}: 8, {From: 1, To: 2}: 12, {From: 2, To: 1}: 13} {
		if x, f := r.best[r.at(at.From, at.To)], r.figures.Alone.At(at.From, at.To); x.Alone != want || f != want || x.Dead {
			t.Errorf("%v: %+v and %v: expected %v", at, x, f, want)
		}
	}
	if x := r.best[1]; x.P50 != 3 || x.Both != 8 || x.Sent != 104 || r.measured != 6 {
		t.Errorf("%+v, %d pairs", x, r.measured)
	}
}

// Each driver has its names, soft and shared memory have another meaning for one of ConnectX's,
// and what a device does not count is not told as none.
func TestCounts(t *testing.T) {
	for _, c := range []struct {
		device            string
		after             map[string]uint64
		resent, lost, rnr float64
		unseen            unseen
	}{
		{"ibv:mlx5_0", map[string]uint64{"local_ack_timeout_err": 13, "packet_seq_err": 4, "implied_nak_seq_err": 1, "rnr_nak_retry_err": 7, "out_of_sequence": 99}, 8, 5, 7, 0},
		{"ibv:rxe0", map[string]uint64{"completer_retry_err": 3, "rcvd_seq_err": 2, "rcvd_rnr_err": 1}, 3, 2, 1, 0},
		{"ibv:bnxt_re0", map[string]uint64{"to_retransmits": 3, "seq_err_naks_rcvd": 2, "rnr_naks_rcvd": 1}, 3, 2, 1, 0},
		{"soft:lo", map[string]uint64{"retransmitted_requests": 6, "packet_seq_err": 2, "implied_nak_seq_err": 0, "local_ack_timeout_err": 20, "rcvd_rnr_err": 0, "rnr_nak_retry_err": 5}, 6, 2, 0, 0},
		{"shm:0", map[string]uint64{"rcvd_rnr_err": 4, "rnr_nak_retry_err": 5}, 0, 0, 4, 0},
		{"ibv:other0", map[string]uint64{"rcvd_rnr_err": 4}, 0, 0, 4, resentUnseen | lostUnseen},
		{"ibv:other0", nil, 0, 0, 0, allUnseen},
	} {
		f := figures{Device: c.device, Unseen: allUnseen}
		f.count(map[string]uint64{"local_ack_timeout_err": 10}, c.after)
		if f.Resent != c.resent || f.Lost != c.lost || f.RNR != c.rnr || f.Unseen != c.unseen {
			t.Errorf("%s, %v: %+v, expected %v, %v, %v and unseen %b", c.device, c.after, f, c.resent, c.lost, c.rnr, c.unseen)
		}
	}
}

// Of a pair whose device does not count what was lost nobody says that it lost nothing.
func TestUnseen(t *testing.T) {
	r := newResults(2, nil)
	r.add([][]figures{{{To: 1, Alone: 10, Sent: 100, RNR: 3, Unseen: lostUnseen}}, {{To: 0, Alone: 11, Lost: 2, Sent: 100}}})
	if f := r.figures; !math.IsNaN(f.Lost.At(0, 1)) || f.Lost.At(1, 0) != 2 || r.blind != 1 {
		t.Errorf("%+v, %d unseen", f, r.blind)
	}
	there, back := r.link(links.Pair{From: 0, To: 1}, r.best[1], []string{"a", "b"}), r.link(links.Pair{From: 1, To: 0}, r.best[2], []string{"a", "b"})
	if there.Lost != nil || *there.RNR != 3 || *back.Lost != 2 {
		t.Errorf("%+v and %+v", there, back)
	}
	if lines := (LinksVerdict{Pairs: 2, Blind: 1}).Lines(); !strings.Contains(lines[1].Text, "not counted on 1 of 2 pairs") {
		t.Errorf("%+v", lines)
	}
}
