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
)

// Growth is what a counter grew by while so much was sent over the queue pairs of a rank on a
// device.
type Growth struct {
	Of       string `json:"of"` // the device, or the interface
	Counter  string `json:"counter"`
	Grew     uint64 `json:"grew"`     // bytes, or packets
	Expected uint64 `json:"expected"` // at the least
	Unit     string `json:"unit"`
}

// grew tells whether the counter has what was sent.
func (g Growth) grew() bool { return g.Grew >= g.Expected }

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
	look := func() (list [][]Growth, err error) {
		for _, w := range t.able() {
			var of []Growth
			d, _ := t.m.Ring.DeviceTo(w.id)
			name, unit, value, err := counters(d)
			if err != nil {
				return nil, err
			}
			if name != "" {
				of = append(of, Growth{Of: d.Name, Counter: name, Grew: value, Unit: unit})
			}
			if netdev := w.carrier(); inSoftware(d) && netdev != "" {
				if n, ok := interfaceSent(netdev); ok {
					of = append(of, Growth{Of: netdev, Counter: "tx_bytes", Grew: n, Unit: "bytes"})
				}
			}
			list = append(list, of)
		}
		return list, nil
	}
	before, err := look()
	if err := t.m.Agree(ctx, err); err != nil {
		return err
	}
	result, err := t.m.Ring.Ping(ctx, pings)
	if err != nil {
		return err
	}
	time.Sleep(counting)
	after, err := look()
	for i, w := range t.able() {
		if err != nil {
			break
		}
		// Each rank pings to the right, and answers to the left. Of two ranks, which have one
		// way each, both edges join the same pair.
		messages := uint64(pings)
		if d, _ := t.m.Ring.DeviceTo(ring.Left.Edge()); d == must(t.m.Ring.DeviceTo(ring.Right.Edge())) {
			messages = 2 * pings
		}
		for k, g := range after[i] {
			if k >= len(before[i]) || before[i][k].Of != g.Of {
				continue
			}
			g.Grew -= min(g.Grew, before[i][k].Grew)
			if g.Expected = messages; g.Unit == "bytes" {
				g.Expected *= uint64(result.Bytes)
			}
			w.grown = append(w.grown, g)
		}
	}
	return t.m.Agree(ctx, err)
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
