package locality

import (
	"fmt"
	"strings"
	"testing"

	"ringcli/configs/usage"
	"ringcli/verbs"
	"ringcli/verbs/route"
	_ "ringcli/verbs/shm"
)

// Both ends come to the same device, whatever they ask for and wherever they are.
func TestChoose(t *testing.T) {
	here := route.Host{BootID: "b", UID: 1000, NetNS: "net:[1]", UserNS: "user:[1]"}
	with := func(change func(*Locality)) Locality {
		s := Locality{Asked: route.Auto, Host: here}
		change(&s)
		return s
	}
	asks := func(device string) Locality {
		return with(func(s *Locality) {
			s.Asked, s.AskedHostLocal = device, verbs.CapabilitiesOf(device).HostLocal
		})
	}
	auto := asks(route.Auto)
	away := with(func(s *Locality) { s.Host.BootID = "other" })
	for name, c := range map[string]struct {
		a, b Locality
		shm  bool
		want string // in the reason, or in the error
		bad  bool
	}{
		"one host":               {auto, auto, true, "processes of one host", false},
		"two hosts":              {auto, away, false, "cannot share memory: they are on two hosts", false},
		"two users":              {auto, with(func(s *Locality) { s.Host.UID = 0 }), false, "users differ", false},
		"two network namespaces": {auto, with(func(s *Locality) { s.Host.NetNS = "net:[2]" }), false, "network namespaces differ", false},
		"two user namespaces":    {auto, with(func(s *Locality) { s.Host.UserNS = "user:[2]" }), false, "user namespaces differ", false},
		"without /proc":          {auto, with(func(s *Locality) { s.Host = route.Host{Missing: "no /proc"} }), false, "not known: no /proc", false},
		"no shared memory there": {auto, with(func(s *Locality) { s.NoSHM = "there is none" }), false, "at rank 1 there is none", false},
		"no shared memory here":  {with(func(s *Locality) { s.NoSHM = "there is none" }), auto, false, "at rank 0 there is none", false},
		"soft at one":            {auto, asks("soft:lo"), false, "soft:lo was asked for at rank 1", false},
		"soft at both":           {asks("soft"), asks("soft:lo"), false, "soft was asked for at rank 0", false},
		"shm at one":             {auto, asks("shm"), true, "shm was asked for at rank 1", false},
		"shm at both":            {asks("shm:0"), asks("shm"), true, "shm:0 was asked for at rank 0", false},
		"shm and soft":           {asks("shm"), asks("soft"), false, "the device differs: rank 0 has shm and rank 1 has soft", true},
		"soft and shm":           {asks("soft"), asks("shm"), false, "the device differs: rank 0 has soft and rank 1 has shm", true},
		"shm, two hosts":         {asks("shm"), away, false, "--device shm at rank 0: rank 0 and rank 1 cannot share memory: they are on two hosts", true},
		"shm there, two hosts":   {away, asks("shm"), false, "--device shm at rank 1: rank 0 and rank 1 cannot share memory", true},
		"shm, where there is none": {asks("shm"), with(func(s *Locality) { s.NoSHM = "there is none" }), false,
			"at rank 1 there is none", true},
	} {
		got, err := Choose(c.a, c.b, [2]string{"rank 0", "rank 1"})
		other, otherErr := Choose(c.b, c.a, [2]string{"rank 1", "rank 0"})
		if (err == nil) != (otherErr == nil) || got.HostLocal != other.HostLocal {
			t.Errorf("%s: %+v, %v at one end and %+v, %v at the other: expected the same", name, got, err, other, otherErr)
		}
		if c.bad {
			if !usage.Is(err) || !strings.Contains(fmt.Sprint(err), c.want) {
				t.Errorf("%s: %v: expected usage with %q", name, err, c.want)
			}
			continue
		}
		if err != nil || got.HostLocal != c.shm || !strings.Contains(got.Why, c.want) {
			t.Errorf("%s: %+v, %v: expected shm %v and %q", name, got, err, c.shm, c.want)
		}
	}
}
