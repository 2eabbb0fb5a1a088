package verbstest

import (
	"errors"
	"strings"
	"testing"

	"ringcli/verbs"
)

func testQuery(t *testing.T, h Harness) {
	r := open(t, h, 4096, rightsAll)
	for _, s := range []*side{r.a, r.b} {
		t.Run(s.name+"/device", func(t *testing.T) { s.queryDevice(t) })
		t.Run(s.name+"/port", func(t *testing.T) { s.queryPort(t) })
		t.Run(s.name+"/gid", func(t *testing.T) { s.queryGID(t) })
		t.Run(s.name+"/counters", func(t *testing.T) { s.queryCounters(t) })
	}
}

func (s *side) queryDevice(t *testing.T) {
	if name := s.Context.Device().Name(); strings.Count(name, ":") < 1 {
		t.Errorf("device name %q: want provider:device", name)
	}
	d := s.dev
	for _, c := range []struct {
		name string
		got  uint64
	}{
		{"MaxMRSize", d.MaxMRSize}, {"MaxQP", uint64(d.MaxQP)}, {"MaxQPWR", uint64(d.MaxQPWR)},
		{"MaxSGE", uint64(d.MaxSGE)}, {"MaxCQ", uint64(d.MaxCQ)}, {"MaxCQE", uint64(d.MaxCQE)},
		{"MaxMR", uint64(d.MaxMR)}, {"MaxPD", uint64(d.MaxPD)}, {"MaxQPRDAtomic", uint64(d.MaxQPRDAtomic)},
		{"PhysPorts", uint64(d.PhysPorts)},
	} {
		if c.got == 0 || c.got > 1<<62 && c.name != "MaxMRSize" {
			t.Errorf("%s is %d, want a positive number", c.name, int64(c.got))
		}
	}
	if d.MaxInline < 0 {
		t.Errorf("MaxInline is %d", d.MaxInline)
	}
}

func (s *side) queryPort(t *testing.T) {
	p := s.port
	if p.State != verbs.PortActive {
		t.Errorf("the port is %s, want %s", p.State, verbs.PortActive)
	}
	if p.ActiveMTU.Bytes() == 0 || p.MaxMTU.Bytes() < p.ActiveMTU.Bytes() {
		t.Errorf("active MTU %s, max MTU %s", p.ActiveMTU, p.MaxMTU)
	}
	if p.GIDTableSz <= s.GIDIndex {
		t.Errorf("%d GIDs, but the harness uses index %d", p.GIDTableSz, s.GIDIndex)
	}
	if p.LinkLayer > verbs.LinkEthernet { // 0: there is no link, as within a host
		t.Errorf("link layer is %s", p.LinkLayer)
	}
	if p.LinkLayer == verbs.LinkInfiniBand && p.LID == 0 {
		t.Error("InfiniBand port without a LID")
	}
	for _, port := range []int{-1, 0, s.dev.PhysPorts + 1} {
		if _, err := s.Context.QueryPort(port); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("port %d: got %v, want an invalid argument", port, err)
		}
	}
}

func (s *side) queryGID(t *testing.T) {
	g := s.gid
	if g.GID.IsZero() || g.Index != s.GIDIndex || g.Port != s.Port {
		t.Errorf("got %+v, want GID %d of port %d", g, s.GIDIndex, s.Port)
	}
	if s.port.LinkLayer == verbs.LinkEthernet && g.Type != verbs.GIDTypeRoCEv2 {
		t.Errorf("GID type is %s, want %s", g.Type, verbs.GIDTypeRoCEv2)
	}
	for _, c := range [][2]int{
		{s.Port, s.port.GIDTableSz}, {s.Port, s.port.GIDTableSz + 1000}, {s.Port, -1},
		{s.dev.PhysPorts + 1, s.GIDIndex}, {0, s.GIDIndex},
	} {
		if got, err := s.Context.QueryGID(c[0], c[1]); !errors.Is(err, verbs.ErrInvalid) {
			t.Errorf("port %d, index %d: got %v, %v, want an invalid argument", c[0], c[1], got.GID, err)
		}
	}
}

func (s *side) queryCounters(t *testing.T) {
	first, err := s.Context.Counters(s.Port)
	if err != nil {
		t.Fatal(err)
	}
	second, err := s.Context.Counters(s.Port)
	if err != nil || len(second) != len(first) {
		t.Fatalf("%d counters, then %d, %v", len(first), len(second), err)
	}
	seen := map[string]bool{}
	for i, c := range first {
		if c.Name == "" || seen[c.Name] || second[i].Name != c.Name {
			t.Errorf("counter %d is %q, then %q: want one name each, in a fixed order", i, c.Name, second[i].Name)
		}
		if second[i].Value < c.Value {
			t.Errorf("%s fell from %d to %d", c.Name, c.Value, second[i].Value)
		}
		seen[c.Name] = true
	}
	if _, err := s.Context.Counters(s.dev.PhysPorts + 1); !errors.Is(err, verbs.ErrInvalid) {
		t.Errorf("counters of port %d: got %v, want an invalid argument", s.dev.PhysPorts+1, err)
	}
}
