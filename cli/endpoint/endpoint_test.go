package endpoint

import (
	"net/netip"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"ringcli/configs/usage"
	"ringcli/verbs"
	_ "ringcli/verbs/soft"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func endpointOf(o Options) *Endpoint {
	o.Device, o.Port = "soft:lo", 1
	return &Endpoint{Options: o, Local: netip.MustParseAddr("127.0.96.1")}
}

// A soft device speaks from the address of the row that was asked for.
func TestOpen(t *testing.T) {
	s := endpointOf(Options{})
	if err := s.Open(netip.MustParseAddr("127.0.96.2")); err != nil {
		t.Fatal(err)
	}
	if got := s.GID.Entry.GID.Addr(); got != s.Local {
		t.Errorf("%s was chosen to speak from %s", got, s.Local)
	}
	own := s.GID.Entry.Index
	rows := s.Port.GIDs
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	for _, row := range rows {
		s := endpointOf(Options{GIDIndex: &row.Index})
		if err := s.Open(netip.Addr{}); err != nil {
			t.Fatal(err)
		}
		if err := s.AllocPD(); err != nil {
			t.Fatal(err)
		}
		if err := s.CreateCQ(4); err != nil {
			t.Fatal(err)
		}
		p := s.NewPair()
		if err := p.Register(64, verbs.AccessLocalWrite); err != nil {
			t.Fatal(err)
		}
		if err := p.Create(1, 1); err != nil {
			t.Fatal(err)
		}
		if entry, err := s.GIDEntry(); err != nil || entry.GID != row.GID || entry.UDPPort == 0 || s.Local != row.GID.Addr() {
			t.Errorf("row %d (own is %d), %s: speaks from %s, %+v, %v", row.Index, own, row.GID, s.Local, entry, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	for want, s := range map[string]*Endpoint{
		"gid-index 200": endpointOf(Options{GIDIndex: new(200)}),
		"nothing:here":  {Options: Options{Device: "nothing:here", Port: 1}},
	} {
		err := s.Open(netip.Addr{})
		if err == nil || !usage.Is(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v: expected an error of usage with %q", err, want)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	s := endpointOf(Options{MTU: 4096})
	s.Port.Attr.ActiveMTU = verbs.MTU1024
	if _, err := s.MTU(); err == nil || !strings.Contains(err.Error(), "1024") {
		t.Errorf("%v: expected the active MTU", err)
	}
}
