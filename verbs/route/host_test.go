package route

import (
	"strings"
	"testing"
)

func TestHost(t *testing.T) {
	h := ThisHost()
	if h.Missing != "" || h.BootID == "" || h.NetNS == "" || h.UserNS == "" || h != ThisHost() {
		t.Errorf("%+v: expected all of it, twice", h)
	}
	if text := h.Apart(h); text != "" {
		t.Errorf("a process is apart from itself: %s", text)
	}
	for want, change := range map[string]func(*Host){
		"on two hosts":                        func(o *Host) { o.BootID = "another" },
		"users differ":                        func(o *Host) { o.UID++ },
		"network namespaces differ: net:[":    func(o *Host) { o.NetNS = "net:[1]" },
		"user namespaces differ: user:[":      func(o *Host) { o.UserNS = "user:[1]" },
		"not known: open /proc: no such file": func(o *Host) { o.Missing = "open /proc: no such file" },
	} {
		other := h
		change(&other)
		if a, b := h.Apart(other), other.Apart(h); !strings.Contains(a, want) || b == "" {
			t.Errorf("%q and %q: expected %q", a, b, want)
		}
	}
}
