package ring

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"ringcli/configs/usage"
	"ringcli/verbs"
)

// odd is a provider whose devices are soft ones that say other things of
// themselves. A test adds a device under a name of its own.
type odd struct {
	mu      sync.Mutex
	devices map[string]*oddDevice // guarded by mu
}

var oddities = &odd{devices: make(map[string]*oddDevice)}

func init() { verbs.Register(oddities) }

func (o *odd) Name() string { return "odd" }

func (o *odd) Capabilities() verbs.Capabilities { return verbs.CapabilitiesOf("soft") }

func (o *odd) Devices() ([]verbs.Device, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if len(o.devices) == 0 {
		return nil, errors.New("nothing odd is here")
	}
	var list []verbs.Device
	for _, d := range o.devices {
		list = append(list, d)
	}
	return list, nil
}

// oddDevice is soft:lo, but for what its fields say.
type oddDevice struct {
	name      string
	attr      func(*verbs.DeviceAttr)
	port      func(*verbs.PortAttr)
	maxInline int // that a queue pair can have; 0: as soft:lo

	mu      sync.Mutex
	onEvent func(verbs.AsyncEvent) // guarded by mu: of the last open
}

// newOdd adds a device for the length of a test.
func newOdd(t *testing.T, d *oddDevice) *oddDevice {
	t.Helper()
	d.name = "odd:" + strings.ReplaceAll(t.Name(), "/", "-")
	oddities.mu.Lock()
	defer oddities.mu.Unlock()
	oddities.devices[d.name] = d
	t.Cleanup(func() {
		oddities.mu.Lock()
		defer oddities.mu.Unlock()
		delete(oddities.devices, d.name)
	})
	return d
}

func (d *oddDevice) Name() string { return d.name }

func (d *oddDevice) Open(o verbs.OpenOptions) (verbs.Context, error) {
	lo, err := verbs.Find("soft:lo")
	if err != nil {
		return nil, err
	}
	d.mu.Lock()
	d.onEvent = o.OnEvent
	d.mu.Unlock()
	c, err := lo.Open(o)
	return &oddContext{c, d}, err
}

// happen has an event happen to whoever has the device open.
func (d *oddDevice) happen(e verbs.AsyncEvent) {
	d.mu.Lock()
	f := d.onEvent
	d.mu.Unlock()
	f(e)
}

type oddContext struct {
	verbs.Context
	d *oddDevice
}

func (c *oddContext) Device() verbs.Device { return c.d }

func (c *oddContext) QueryDevice() (verbs.DeviceAttr, error) {
	a, err := c.Context.QueryDevice()
	if c.d.attr != nil {
		c.d.attr(&a)
	}
	return a, err
}

func (c *oddContext) QueryPort(port int) (verbs.PortAttr, error) {
	a, err := c.Context.QueryPort(port)
	if c.d.port != nil {
		c.d.port(&a)
	}
	return a, err
}

func (c *oddContext) AllocPD() (verbs.PD, error) {
	p, err := c.Context.AllocPD()
	return &oddPD{p, c}, err
}

type oddPD struct {
	verbs.PD
	c *oddContext
}

func (p *oddPD) CreateQP(a verbs.QPInitAttr) (verbs.QP, error) {
	if limit := p.c.d.maxInline; limit > 0 {
		if a.Cap.MaxInlineData >= limit {
			return nil, fmt.Errorf("%d bytes of inline data: %w", a.Cap.MaxInlineData, verbs.ErrInvalid)
		}
	}
	return p.PD.CreateQP(a)
}

// A device whose queue pairs can do less inline than a message is long carries
// messages from buffers of their own.
func TestInlineThatIsNotKnown(t *testing.T) {
	for name, c := range map[string]struct{ says, can, want int }{
		"not told and enough": {0, 1000, MessageSize},
		"not told and less":   {0, 100, MessageSize / 2},
		"not told and none":   {0, 1, 0},
		"told":                {48, 1000, 48},
	} {
		t.Run(name, func(t *testing.T) {
			d := newOdd(t, &oddDevice{attr: func(a *verbs.DeviceAttr) { a.MaxInline = c.says }, maxInline: c.can})
			world := connect(t, 2, func(_ int, o *Options) { o.Device = d.name })
			for _, r := range world {
				if r.Left().inline != c.want {
					t.Errorf("rank %d: %d bytes inline: expected %d", r.Rank(), r.Left().inline, c.want)
				}
			}
			noErrors(t, each(world, func(r *Ring) error { _, err := r.Ping(t.Context(), 2*sendDepth+3); return err }))
			// All that may be under way at once, each from its own bytes.
			from, to := world[0].Right(), world[1]
			for i := range recvDepth {
				if err := from.SendMessage([]byte(strings.Repeat(string(rune('a'+i%26)), MessageSize))); err != nil {
					t.Fatal(err)
				}
			}
			sender, receiver := begin(t, world[0]), begin(t, to)
			var wc [16]verbs.Completion
			for got := 0; got < recvDepth; {
				if err := poll(t, sender, receiver, wc[:], func(w *verbs.Completion) {
					_, _, i := ParseWRID(w.ID)
					if text := string(to.Left().Message(i, w.ByteLen)); text != strings.Repeat(string(rune('a'+got%26)), MessageSize) {
						t.Errorf("message %d is %q", got, text)
					}
					got++
				}); err != nil {
					t.Fatal(err)
				}
			}
			noErrors(t, []error{sender.End(), receiver.End()})
		})
	}
}

// poll lets both ranks make progress, and hands on what one receives.
func poll(t *testing.T, sender, receiver Token, wc []verbs.Completion, got func(*verbs.Completion)) error {
	t.Helper()
	if err := t.Context().Err(); err != nil {
		return err
	}
	sent, err := sender.Poll(wc)
	if err != nil {
		return err
	}
	for i := range sent {
		if wc[i].Status != verbs.Success {
			return wc[i].Status.Err()
		}
	}
	n, err := receiver.Poll(wc)
	for i := range n {
		if wc[i].Status != verbs.Success {
			return wc[i].Status.Err()
		}
		if _, kind, _ := ParseWRID(wc[i].ID); kind == WRRecv {
			got(&wc[i])
		}
	}
	return err
}

// A device that cannot do what an edge needs is refused when it is opened.
func TestLimits(t *testing.T) {
	for want, attr := range map[string]func(*verbs.DeviceAttr){
		"max_qp_wr 100": func(a *verbs.DeviceAttr) { a.MaxQPWR = 100 },
		"max_cqe 255":   func(a *verbs.DeviceAttr) { a.MaxCQE = 255 },
		"max_sge 1":     func(a *verbs.DeviceAttr) { a.MaxSGE = 1 },
		"max_qp 1":      func(a *verbs.DeviceAttr) { a.MaxQP = 1 },
	} {
		t.Run(want, func(t *testing.T) {
			d := newOdd(t, &oddDevice{attr: attr})
			r := newRings(t, 1, func(_ int, o *Options) { o.Device = d.name })[0]
			if err := r.Open(t.Context()); !usage.Is(err) || !strings.Contains(textOf(err), want) {
				t.Errorf("%v: expected usage with %q", err, want)
			}
		})
	}
	t.Run("unknown", func(t *testing.T) {
		d := newOdd(t, &oddDevice{attr: func(a *verbs.DeviceAttr) { *a = verbs.DeviceAttr{MaxQPRDAtomic: 16} }})
		world := connect(t, 2, func(_ int, o *Options) { o.Device = d.name })
		if end, err := world[0].Ends().Own(Right.Edge()); err != nil || end.MaxRDAtomic != 16 {
			t.Errorf("%d READs in flight, %v: expected 16", end.MaxRDAtomic, err)
		}
	})
	t.Run("READs", func(t *testing.T) {
		d := newOdd(t, &oddDevice{attr: func(a *verbs.DeviceAttr) { a.MaxQPInitRDAtomic = 3 }})
		world := connect(t, 2, func(_ int, o *Options) { o.Device = d.name })
		if end, err := world[0].Ends().Own(Right.Edge()); err != nil || end.MaxRDAtomic != 3 {
			t.Errorf("%d READs in flight, %v: expected 3", end.MaxRDAtomic, err)
		}
	})
}

// A port that is down is named with what to do.
func TestPortDown(t *testing.T) {
	d := newOdd(t, &oddDevice{port: func(a *verbs.PortAttr) { a.State = verbs.PortDown }})
	r := newRings(t, 1, func(_ int, o *Options) { o.Device, o.Timeout = d.name, 300*time.Millisecond })[0]
	if err := r.Open(t.Context()); usage.Is(err) || !strings.Contains(textOf(err), "is DOWN: expected ACTIVE") {
		t.Errorf("%v: expected the port to be named, and no usage", err)
	}
}

// A port that becomes ACTIVE after the start is waited for.
func TestPortThatBecomesActive(t *testing.T) {
	var looks atomic.Int32
	d := newOdd(t, &oddDevice{port: func(a *verbs.PortAttr) {
		if looks.Add(1) < 5 {
			a.State = verbs.PortInit
		}
	}})
	r := newRings(t, 1, func(_ int, o *Options) { o.Device = d.name })[0]
	if err := r.Open(t.Context()); err != nil || looks.Load() < 5 {
		t.Errorf("%v after %d looks: expected the device when its port is ACTIVE", err, looks.Load())
	}
}

// What was chosen is explained.
func TestChoiceIsExplained(t *testing.T) {
	servers := freshServers(t, 2)
	for name, c := range map[string]struct {
		change                      func(*Options)
		device, why, reason, reject string
	}{
		"named":           {func(o *Options) { o.Device = "soft" }, "soft:lo", "soft was asked for", "the local address", "not the local address"},
		"on this machine": {func(*Options) {}, "shm:0", "rank 1 (" + servers[1] + ":18600) has an address of this machine", "find the process by", ""},
		"a GID of a network": {func(o *Options) { o.GIDIndex = new(0) }, "soft:lo", "--gid-index was given, which is for devices of a network; soft:lo: interface lo has " + servers[0],
			"gid-index 0 was asked for", "another was asked for"},
	} {
		o := testOptions()
		o.Device = "auto"
		c.change(&o)
		r, err := New(servers, 0, o)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Open(t.Context()); err != nil {
			t.Fatal(err)
		}
		d, why := r.DeviceTo(Left.Edge())
		if d.Name != c.device || !strings.Contains(why, c.why) {
			t.Errorf("%s: %s is taken since %q: expected %s since %q", name, d.Name, why, c.device, c.why)
		}
		if g := d.GID; !strings.Contains(g.Reason, c.reason) || c.reject != "" && (len(g.Rejected) == 0 || !strings.Contains(g.Rejected[0].Reason, c.reject)) {
			t.Errorf("%s: GID %s is taken since %q, not %+v: expected %q", name, g.Entry.GID, g.Reason, g.Rejected, c.reason)
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
