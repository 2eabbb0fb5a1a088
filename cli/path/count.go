package path

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"

	"ringcli/cli/session"
	"ringcli/ring"
	"ringcli/ring/device"
	"ringcli/ring/path"
	"ringcli/verbs/route"
)

// Growth is what a counter grew by while so much was sent over the queue pairs of a rank on a
// device.
type Growth struct {
	Of       string `json:"of"` // the device, or the interface
	Counter  string `json:"counter"`
	Grew     uint64 `json:"grew"`     // bytes, or packets
	Expected uint64 `json:"expected"` // at the least: what all ranks have sent that it counts
	Others   uint64 `json:"others"`   // what it grows by in as long a time while no rank sends
	Unit     string `json:"unit"`

	key  string // of ranks whose packets one counter counts; empty: this rank's alone
	most uint64 // that the ranks' packets come to, headers, ACKs and what was lost included
}

// grew tells whether the counter has what was sent.
func (g Growth) grew() bool { return g.Grew >= g.Expected }

// drowned tells whether it may have come from others as well.
func (g Growth) drowned() bool { return g.grew() && (g.Others > g.Expected/2 || g.Grew > g.most) }

// counterOf are the names of what devices count of what they send, and in which unit: bytes,
// words of 4 bytes (InfiniBand specification, PortXmitData; soft's, too), or packets.
var counterOf = []struct {
	name  string
	bytes uint64 // of one; 0: packets
}{{"port_xmit_data", 4}, {"sent_pkts", 0}, {"port_xmit_packets", 0}, {"tx_bytes", 1}, {"tx_pkts", 0}}

// counters returns what a device has sent, and by which counter; "" if it does not count that.
func counters(d *ring.Device) (name, unit string, value uint64, err error) {
	list, err := d.Counters()
	if err != nil {
		return "", "", 0, err
	}
	for _, known := range counterOf {
		for _, c := range list {
			if c.Name != known.name {
				continue
			}
			if known.bytes == 0 {
				return c.Name, "packets", c.Value, nil
			}
			return c.Name, "bytes", c.Value * known.bytes, nil
		}
	}
	return "", "", 0, nil
}

// interfaceSent is how many bytes an interface of this network namespace has sent.
func interfaceSent(netdev string) (uint64, bool) {
	b, err := os.ReadFile("/proc/self/net/dev")
	if err != nil {
		return 0, false
	}
	for line := range bytes.Lines(b) {
		of, rest, found := strings.Cut(string(line), ":")
		if f := strings.Fields(rest); found && strings.TrimSpace(of) == netdev && len(f) > 8 {
			n, err := strconv.ParseUint(f[8], 10, 64)
			return n, err == nil
		}
	}
	return 0, false
}

// count sends messages over the queue pairs and looks which counters grew.
func (t *test) count(ctx context.Context) error {
	if t.m.Ring.Diagnosing() {
		for _, w := range t.ways {
			w.quiet = "nothing was sent over the queue pairs: the ring is not ready"
		}
		return nil
	}
	broken := false
	for _, w := range t.ways {
		broken = broken || len(w.came) < len(w.probed)
	}
	all, err := session.Share(ctx, t.m, broken)
	if err != nil {
		return err
	}
	for rank, broken := range all {
		if broken {
			for _, w := range t.ways {
				w.quiet = fmt.Sprintf("nothing was sent over the queue pairs: what the device of rank %d sends does not all arrive", rank)
			}
			return nil
		}
	}
	if err := t.m.Ring.Barrier(ctx); err != nil {
		return err
	}
	begun := time.Now()
	idle, err := t.grown(func() error { return sleep(ctx, idling) })
	idled := time.Since(begun)
	if err := t.m.Agree(ctx, err); err != nil {
		return err
	}
	var result ring.PingResult
	begun = time.Now()
	busy, err := t.grown(func() (err error) {
		if result, err = t.m.Ring.Ping(ctx, pings); err == nil {
			err = sleep(ctx, counting)
		}
		return err
	})
	share := float64(time.Since(begun)) / float64(idled)
	own := map[string]uint64{}
	for i, w := range t.able() {
		for _, g := range busy[i] {
			own[g.key] = t.messages(w)
		}
	}
	if err := t.m.Agree(ctx, err); err != nil {
		return err
	}
	sent, err := session.Share(ctx, t.m, own)
	if err != nil {
		return err
	}
	for i, w := range t.able() {
		for k, g := range busy[i] {
			messages := t.messages(w)
			if g.key != "" {
				messages = 0
				for _, of := range sent {
					messages += of[g.key]
				}
			}
			g.Expected, g.most = messages, 4*messages // each has an ACK, and the half may go twice
			if g.Unit == "bytes" {
				g.Expected, g.most = messages*uint64(result.Bytes), 2*messages*uint64(result.Bytes+ethernet+path.Headers(w.own.Addr)+rdmaHeaders+ackBytes)
			}
			if k < len(idle[i]) && idle[i][k].Of == g.Of {
				g.Others = uint64(float64(idle[i][k].Grew) * share)
			}
			w.grown = append(w.grown, g)
		}
	}
	return nil
}

// messages are how many a rank sends over a way's device: each pings to the right, and answers to
// the left. Of two ranks, which have one way each, both edges join the same pair.
func (t *test) messages(w *way) uint64 {
	if d, _ := t.m.Ring.DeviceTo(ring.Left.Edge()); d == must(t.m.Ring.DeviceTo(ring.Right.Edge())) {
		return 2 * pings
	}
	return pings
}

// counts are what counts each way's packets, as it stands now.
func (t *test) counts() (list [][]Growth, err error) {
	host := route.ThisHost()
	for _, w := range t.able() {
		var of []Growth
		d, _ := t.m.Ring.DeviceTo(w.id)
		name, unit, value, err := counters(d)
		if err != nil {
			return nil, err
		}
		if name != "" {
			g := Growth{Of: d.Name, Counter: name, Grew: value, Unit: unit}
			if !d.Attr.UDPSocket { // those are of the process
				g.key = host.BootID + " " + d.Name
			}
			of = append(of, g)
		}
		if netdev := w.carrier(); inSoftware(d) && netdev != "" {
			if n, ok := interfaceSent(netdev); ok {
				of = append(of, Growth{Of: netdev, Counter: "tx_bytes", Grew: n, Unit: "bytes", key: host.BootID + " " + host.NetNS + " " + netdev})
			}
		}
		list = append(list, of)
	}
	return list, nil
}

// grown says by what counters of each way grow while something is done.
func (t *test) grown(do func() error) (list [][]Growth, err error) {
	list = make([][]Growth, len(t.able()))
	before, err := t.counts()
	if err == nil {
		err = do()
	}
	if err != nil {
		return list, err
	}
	after, err := t.counts()
	if err != nil {
		return list, err
	}
	for i := range after {
		for k, g := range after[i] {
			if k < len(before[i]) && before[i][k].Of == g.Of {
				g.Grew -= min(g.Grew, before[i][k].Grew)
				list[i] = append(list[i], g)
			}
		}
	}
	return list, nil
}

func sleep(ctx context.Context, d time.Duration) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-time.After(d):
		return nil
	}
}

func must(d *ring.Device, _ string) *ring.Device { return d }

// inSoftware tells whether a device's packets go through the kernel's interface.
func inSoftware(d *ring.Device) bool {
	return d.Attr.UDPSocket || d.Attr.VendorID == device.RXEVendor
}

// carrier is the interface that carries a way's packets, if all is well: between two
// addresses of one host that is not the one that has them.
func (w *way) carrier() string {
	if w.hop.Local {
		return w.hop.NetDev
	}
	return w.own.NetDev
}
