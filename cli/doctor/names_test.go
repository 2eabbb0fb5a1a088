package doctor

import (
	"context"
	"net/netip"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/configs/codes"
)

var namesCases = []provocation{
	{"the own name is unknown", func(t *testing.T, f *fake) { f.Hostname = func() (string, error) { return "nobody", nil } }, "host-name", Warn, codes.HostUnknown, "no such host", "echo ADDRESS nobody >> /etc/hosts"},
	{"the own name is another's", func(t *testing.T, f *fake) { f.Hostname = func() (string, error) { return "old", nil } }, "host-name", Warn, codes.AddressForeign, "10.9.9.9", "getent hosts old"},
	{"the own name is loopback", func(t *testing.T, f *fake) { f.Hostname = func() (string, error) { return "debian", nil } }, "host-name", Pass, "", "127.0.1.1", ""},
	{"a name of the list is unknown", func(t *testing.T, f *fake) { f.list(t, "node0,nobody", 0) }, "names", Fail, codes.HostUnknown, "no such host", "getent hosts nobody"},
	{"names that do not come in time", func(t *testing.T, f *fake) {
		f.asked.Timeout = time.Millisecond
		f.Lookup = func(ctx context.Context, _ string) ([]netip.Addr, error) { <-ctx.Done(); return nil, ctx.Err() }
		f.list(t, "node0,node1", 0)
	}, "names", Fail, codes.HostUnknown, "deadline exceeded", "getent hosts node0"},
	{"another's index", func(t *testing.T, f *fake) { f.list(t, "10.1.2.3,10.1.2.4", 1) }, "address", Fail, codes.AddressForeign, "is --index 0 meant?", "ip address"},
	{"another's list", func(t *testing.T, f *fake) { f.list(t, "node1,old", -1) }, "address", Fail, codes.AddressForeign, "no entry", "ip address"},
	{"no index", func(t *testing.T, f *fake) { f.list(t, "node0,node1,node0", -1) }, "address", Pass, "", "10.1.2.3, entries 0, 2 of the list", ""},
	{"loopback, and neighbours elsewhere", func(t *testing.T, f *fake) { f.list(t, "127.0.0.1,node1", 0) }, "address", Fail, codes.AddressForeign, "127.0.0.1", "ip route get 10.1.2.4"},
	{"no name", func(_ *testing.T, f *fake) { f.Hostname = func() (string, error) { return "", unix.EPERM } }, "host-name", Skip, "", "not permitted", ""},
	{"a name server that takes its time", func(t *testing.T, f *fake) {
		lookup := f.Lookup
		f.Lookup = func(ctx context.Context, host string) ([]netip.Addr, error) {
			time.Sleep(1500 * time.Millisecond) // of the test's own clock
			return lookup(ctx, host)
		}
		f.list(t, "node0,node1", 0)
	}, "names", Warn, codes.Timeout, "2 of 2 have an address; the slowest took 1.5 s", "resolvectl status"},
	{"a name without an address", func(t *testing.T, f *fake) {
		f.Lookup = func(context.Context, string) ([]netip.Addr, error) { return nil, nil }
		f.list(t, "node0,node1", 0)
	}, "names", Fail, codes.HostUnknown, "no address", "getent hosts node0"},
	{"no list, of names", func(*testing.T, *fake) {}, "names", Skip, "", "no --list", ""},
	{"no list, of addresses", func(*testing.T, *fake) {}, "address", Skip, "", "no --list", ""},
	{"an address without all names", func(t *testing.T, f *fake) { f.list(t, "node0,nobody", 0) }, "address", Skip, "", "not all names", ""},
}
