package ring

import (
	"cmp"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"time"

	"ringcli/trace"
	"ringcli/verbs"
)

// mishap is a bad event of the device that still holds.
type mishap struct {
	verbs.AsyncEvent
	at time.Time
}

// mishaps are the latest bad events of the ring's device, oldest first. They are
// noted on a goroutine of the device and told when something fails.
type mishaps struct {
	failing sync.WaitGroup // the goroutines that fail the ring since an event came

	mu     sync.Mutex // guards the following
	device string
	list   []mishap
}

// mostMishaps is how many are kept: more would not make a failure clearer.
const mostMishaps = 4

// begin forgets what an earlier device did.
func (m *mishaps) begin(device string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.device, m.list = device, nil
}

// note keeps a bad event. A port that is active again ends what was said of it.
func (m *mishaps) note(e verbs.AsyncEvent, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Type == verbs.EventPortActive {
		m.list = slices.DeleteFunc(m.list, func(x mishap) bool { return x.Type == verbs.EventPortErr && x.Port == e.Port })
	}
	if !e.Type.Bad() {
		return
	}
	m.list = append(m.list, mishap{e, at})
	if len(m.list) > mostMishaps {
		m.list = slices.Delete(m.list, 0, 1)
	}
}

// reset forgets what happened to queue pairs: they begin anew.
func (m *mishaps) reset() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = slices.DeleteFunc(m.list, func(x mishap) bool { return x.QPN != 0 })
}

// text is what happened before now, "" if nothing did.
func (m *mishaps) text(now time.Time) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var parts []string
	for _, x := range m.list {
		parts = append(parts, x.text(m.device, now))
	}
	return strings.Join(parts, "; ")
}

func (x mishap) text(device string, now time.Time) string {
	before := fmt.Sprintf("%.1f s before", max(0, now.Sub(x.at).Seconds()))
	switch {
	case x.Type == verbs.EventPortErr:
		return fmt.Sprintf("port %d of %s went down %s (%s)", x.Port, device, before, x.Type)
	case x.QPN != 0:
		return fmt.Sprintf("%s reported of queue pair 0x%06x %s: %s", device, x.QPN, before, x.Type)
	default:
		return fmt.Sprintf("%s reported %s: %s", device, before, x.Type)
	}
}

// behind adds to an error what happened to the device before it, unless it says so
// itself.
func (m *mishaps) behind(err error) error {
	text := m.text(time.Now())
	if text == "" || strings.Contains(err.Error(), m.deviceName()) {
		return err
	}
	return fmt.Errorf("%w; %s", err, text)
}

func (m *mishaps) deviceName() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.device
}

// findings are the mishaps as a diagnosis tells them, those of the port first.
func (m *mishaps) findings(netdev string, rank int, now time.Time) []Finding {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []Finding
	for _, x := range m.list {
		f := Finding{
			Severity: Fault, Attribute: "device", Rank: rank, Own: x.Type.String(), Text: fmt.Sprintf("rank %d: %s", rank, x.text(m.device, now)),
			Fix: "look at the kernel's log of " + m.device + " (dmesg), then connect again",
		}
		if x.Type == verbs.EventPortErr {
			f.Attribute, f.Fix = "port_state", "bring the link up (ip link show "+cmp.Or(netdev, "DEV")+"), then connect again"
		}
		found = append(found, f)
	}
	slices.SortStableFunc(found, func(a, b Finding) int { return -cmp.Compare(a.Attribute, b.Attribute) })
	return found
}

// DeviceError is an event after which a rank's device or queue pair is of no use.
type DeviceError struct {
	Rank   int
	Node   string
	Device string
	Event  verbs.AsyncEvent
}

func (e *DeviceError) Error() string {
	cure := "connect again"
	if e.Event.Type == verbs.EventDeviceFatal {
		cure = "the device must be reset, or its driver loaded anew (dmesg says more); then connect again"
	}
	return fmt.Sprintf("rank %d (%s): %s reports %s: %s", e.Rank, e.Node, e.Device, e.Event, cure)
}

// event takes an asynchronous event of the device, on the device's goroutine, and
// does not wait. A port that is down is kept in mind only: links flap, and retries
// may outlast that.
func (r *Ring) event(e verbs.AsyncEvent) {
	r.mishaps.note(e, time.Now())
	level := trace.Debug
	if e.Type.Bad() {
		level = trace.Warn
	}
	level(trace.Ring, "device event", slog.String("device", r.mishaps.deviceName()), slog.String("event", e.String()))
	switch e.Type {
	case verbs.EventDeviceFatal:
	case verbs.EventQPFatal, verbs.EventCQErr:
		if r.opts.ByHand {
			return // who works by hand may reset the queue pair
		}
	default:
		return
	}
	err := &DeviceError{Rank: r.rank, Node: r.nodes[r.rank].String(), Device: r.mishaps.deviceName(), Event: e}
	r.mishaps.failing.Go(func() { r.Fail(err) })
}
