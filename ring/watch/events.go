package watch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ringcli/ring/diagnose"
	"ringcli/verbs"
)

// event is a bad one of a device that still holds.
type event struct {
	verbs.AsyncEvent
	device string
	at     time.Time
}

// Events are the latest bad events of the ring's devices, oldest first. They are
// noted on goroutines of the devices and told when something fails.
type Events struct {
	mu   sync.Mutex
	list []event // guarded by mu
}

// mostEvents is how many are kept: more would not make a failure clearer.
const mostEvents = 4

// Note keeps a bad event. A port that is active again ends what was said of it.
func (m *Events) Note(device string, e verbs.AsyncEvent, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Type == verbs.EventPortActive {
		m.list = slices.DeleteFunc(m.list, func(x event) bool {
			return x.Type == verbs.EventPortErr && x.device == device && x.Port == e.Port
		})
	}
	if !e.Type.Bad() {
		return
	}
	m.list = append(m.list, event{e, device, at})
	if len(m.list) > mostEvents {
		m.list = slices.Delete(m.list, 0, 1)
	}
}

// Forget drops what happened to queue pairs that begin anew, and to devices that do.
func (m *Events) Forget(devices bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = slices.DeleteFunc(m.list, func(x event) bool { return devices || x.QPN != 0 })
}

// Text is what happened before now to the devices that counts takes, "" if nothing
// did.
func (m *Events) Text(now time.Time, counts func(device string) bool) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var parts []string
	for _, x := range m.list {
		if counts(x.device) {
			parts = append(parts, x.text(now))
		}
	}
	return strings.Join(parts, "; ")
}

func (x event) text(now time.Time) string {
	before := fmt.Sprintf("%.1f s before", max(0, now.Sub(x.at).Seconds()))
	switch {
	case x.Type == verbs.EventPortErr:
		return fmt.Sprintf("port %d of %s went down %s (%s)", x.Port, x.device, before, x.Type)
	case x.QPN != 0:
		return fmt.Sprintf("%s reported of queue pair 0x%06x %s: %s", x.device, x.QPN, before, x.Type)
	default:
		return fmt.Sprintf("%s reported %s: %s", x.device, before, x.Type)
	}
}

// Explaining adds to an error what happened to devices before it, but for the one whose event
// it tells itself.
func (m *Events) Explaining(err error, told string) error {
	text := m.Text(time.Now(), func(device string) bool { return device != told })
	if text == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, text)
}

// Findings are the events of a device as a diagnosis tells them, those of the port
// first.
func (m *Events) Findings(device, netdev string, rank int, now time.Time) []diagnose.Finding {
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []diagnose.Finding
	for _, x := range m.list {
		if x.device != device {
			continue
		}
		f := diagnose.Finding{
			Severity: diagnose.Fault, Attribute: "device", Rank: rank, Own: x.Type.String(), Text: fmt.Sprintf("rank %d: %s", rank, x.text(now)),
			Fix: "look at the kernel's log of " + device + " (dmesg), then connect again",
		}
		if x.Type == verbs.EventPortErr {
			f.Attribute, f.Fix = "port_state", "bring the link up (ip link show "+cmp.Or(netdev, "DEV")+"), then connect again"
		}
		found = append(found, f)
	}
	slices.SortStableFunc(found, func(a, b diagnose.Finding) int { return -cmp.Compare(a.Attribute, b.Attribute) })
	return found
}
