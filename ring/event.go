package ring

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ringcli/configs/codes"
	"ringcli/ring/diagnose"
	"ringcli/verbs"
)

// deviceEvent is a bad event of a device that still holds.
type deviceEvent struct {
	verbs.AsyncEvent
	device string
	at     time.Time
}

// deviceEvents are the latest bad events of the ring's devices, oldest first. They are
// noted on goroutines of the devices and told when something fails.
type deviceEvents struct {
	failing sync.WaitGroup // the goroutines that fail the ring since an event came

	mu   sync.Mutex
	list []deviceEvent // guarded by mu
}

// mostEvents is how many are kept: more would not make a failure clearer.
const mostEvents = 4

// note keeps a bad event. A port that is active again ends what was said of it.
func (m *deviceEvents) note(device string, e verbs.AsyncEvent, at time.Time) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if e.Type == verbs.EventPortActive {
		m.list = slices.DeleteFunc(m.list, func(x deviceEvent) bool {
			return x.Type == verbs.EventPortErr && x.device == device && x.Port == e.Port
		})
	}
	if !e.Type.Bad() {
		return
	}
	m.list = append(m.list, deviceEvent{e, device, at})
	if len(m.list) > mostEvents {
		m.list = slices.Delete(m.list, 0, 1)
	}
}

// forget drops what happened to queue pairs that begin anew, and to devices that do.
func (m *deviceEvents) forget(devices bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.list = slices.DeleteFunc(m.list, func(x deviceEvent) bool { return devices || x.QPN != 0 })
}

// text is what happened before now to the devices that counts takes, "" if nothing
// did.
func (m *deviceEvents) text(now time.Time, counts func(device string) bool) string {
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

func (x deviceEvent) text(now time.Time) string {
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

// explaining adds to an error what happened to devices before it, unless it tells that
// itself.
func (m *deviceEvents) explaining(err error) error {
	var told string // the device
	var c *CompletionError
	var d *DeviceError
	switch {
	case errors.As(err, &d):
		told = d.Device
	case errors.As(err, &c):
		told = c.Device
	}
	text := m.text(time.Now(), func(device string) bool { return device != told })
	if text == "" {
		return err
	}
	return fmt.Errorf("%w; %s", err, text)
}

// findings are the events of a device as a diagnosis tells them, those of the port
// first.
func (m *deviceEvents) findings(device, netdev string, rank int, now time.Time) []diagnose.Finding {
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

// DeviceError is an event after which a rank's device or queue pair is of no use.
type DeviceError struct {
	Rank   int
	Node   string
	Device string
	Event  verbs.AsyncEvent
}

// FailureCode is that of a device that is of no use.
func (e *DeviceError) FailureCode() codes.Code { return codes.Device }

func (e *DeviceError) Error() string {
	cure := "connect again"
	if e.Event.Type == verbs.EventDeviceFatal {
		cure = "the device must be reset, or its driver loaded anew (dmesg says more); then connect again"
	}
	return fmt.Sprintf("rank %d (%s): %s reports %s: %s", e.Rank, e.Node, e.Device, e.Event, cure)
}
