package verbs_test

import (
	"errors"
	"strings"
	"testing"

	. "ringcli/verbs"
)

type fakeProvider struct {
	name    string
	can     Capabilities
	devices []Device
	err     error
}

func (p fakeProvider) Name() string               { return p.name }
func (p fakeProvider) Capabilities() Capabilities { return p.can }
func (p fakeProvider) Devices() ([]Device, error) { return p.devices, p.err }

type fakeDevice string

func (d fakeDevice) Name() string                      { return string(d) }
func (d fakeDevice) Open(OpenOptions) (Context, error) { return nil, ErrNoDevice }

// The registry is the process's own, so one test fills it step by step.
func TestRegistry(t *testing.T) {
	if _, err := Find("first:a"); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), "no provider has any") {
		t.Errorf("an empty registry: got %v", err)
	}
	reason := errors.New("libibverbs.so.1 is not installed")
	Register(fakeProvider{name: "first", devices: []Device{fakeDevice("first:a"), fakeDevice("first:b")}})
	Register(fakeProvider{name: "broken", err: reason})
	Register(fakeProvider{name: "second", can: Capabilities{HostLocal: true}, devices: []Device{fakeDevice("second:a")}})

	var names []string
	for _, p := range Providers() {
		names = append(names, p.Name())
	}
	if got := strings.Join(names, " "); got != "first broken second" {
		t.Errorf("providers: got %q, want the order of registration", got)
	}
	for name, want := range map[string]string{
		"first:a": "first:a", "first:b": "first:b", "first": "first:a", "second": "second:a", "second:a": "second:a",
	} {
		if d, err := Find(name); err != nil || d.Name() != want {
			t.Errorf("find %q: got %v, %v, want %s", name, d, err, want)
		}
	}
	for name, want := range map[string]string{
		"first:c": "expected one of first:a, first:b, second:a", "third": "first:a", "": "first:a", "broken:x": reason.Error(),
	} {
		if d, err := Find(name); !errors.Is(err, ErrNoDevice) || !strings.Contains(err.Error(), want) {
			t.Errorf("find %q: got %v, %v, want an error with %q", name, d, err, want)
		}
	}
	if _, err := Find("broken"); !errors.Is(err, reason) {
		t.Errorf("a provider's own reason is lost: %v", err)
	}
	for name, want := range map[string]bool{"second": true, "second:a": true, "second:gone": true, "first": false, "auto": false, "": false} {
		if got := CapabilitiesOf(name).HostLocal; got != want {
			t.Errorf("%q is host-local: %v, want %v", name, got, want)
		}
	}
	defer func() {
		if r := recover(); r == nil {
			t.Error("a second provider of one name was taken")
		}
	}()
	Register(fakeProvider{name: "first"})
}
