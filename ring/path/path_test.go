package path

import (
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// The longest packet is found whatever it is, and whatever of the shorter ones is lost.
func TestSearch(t *testing.T) {
	for most := 40; most <= 9001; most += 7 {
		s := NewSearch(49, 9000, 4160, 1500, 0, 20000)
		steps := 0
		for sizes := s.Next(); len(sizes) > 0; sizes = s.Next() {
			var came []int
			for i, n := range sizes {
				lost := i%3 == 1 && n != most && i+1 < len(sizes) && sizes[i+1] <= most
				if n <= most && !lost {
					came = append(came, n)
				}
			}
			s.Took(came)
			if steps++; steps > 12 {
				t.Fatalf("%d: not found in 6 steps and as many again: %+v", most, s)
			}
		}
		if want := min(most, 9000); s.Best != want && (want >= 49 || s.Best != 0) {
			t.Errorf("%d: found %d", most, s.Best)
		}
	}
}

// A receiver that has no CPU for the time of a step misses all of it; the next finds it.
func TestSearchOfStalled(t *testing.T) {
	for _, most := range []int{49, 1500, 4160, 7777, 9000} {
		for stalled := range 8 {
			s := NewSearch(49, 9000, 4160, 1500)
			step := 0
			for sizes := s.Next(); len(sizes) > 0; sizes = s.Next() {
				var came []int
				for _, n := range sizes {
					if n <= most && step != stalled {
						came = append(came, n)
					}
				}
				s.Took(came)
				step++
			}
			if s.Best != most {
				t.Errorf("nothing came of step %d: found %d, expected %d", stalled, s.Best, most)
			}
		}
	}
}

// What came while nobody here had a CPU is read after the deadline.
func TestLastLook(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := Probe{1, Size, 1500}
		l := &Listener{seen: map[Probe]*heard{}}
		reader := time.AfterFunc(105*time.Millisecond, func() {
			l.mu.Lock()
			l.seen[p] = &heard{numbers: 1}
			l.mu.Unlock()
		})
		defer reader.Stop()
		begun := time.Now()
		if seen := l.Await(t.Context(), []Probe{p, {1, Size, 9000}}, 1, 100*time.Millisecond); seen[0].Came != 1 || seen[1].Came != 0 {
			t.Errorf("%+v", seen)
		}
		if took := time.Since(begun); took > 150*time.Millisecond {
			t.Errorf("took %s", took)
		}
	})
}

// Probes of all kinds arrive as they were sent, of both families; strangers' count for nothing.
func TestProbes(t *testing.T) {
	for _, text := range []string{"127.0.0.1", "::1"} {
		local := netip.MustParseAddr(text)
		l, err := Listen(local, 0)
		if err != nil {
			t.Skipf("no %s here: %v", text, err)
		}
		s, err := NewSender(local, 0, l.Target())
		if err != nil {
			t.Fatal(err)
		}
		stranger := *s
		stranger.to.Key++
		probes := []Probe{{1, Size, 1500}, {1, Mark, 0}, {2, Mark, 1}}
		for n := range 3 {
			for i, p := range probes {
				if err := s.Send(p, n, 1500, uint8(26<<2|i)); err != nil {
					t.Fatal(err)
				}
				if err := stranger.Send(p, n+3, 1500, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		for i, seen := range l.Await(t.Context(), probes, 3, time.Minute) {
			if seen.Probe != probes[i] || seen.Came != 3 || seen.TOS != uint8(26<<2|i) || seen.Later <= 0 {
				t.Errorf("%s: %+v", text, seen)
			}
		}
		echoes, err := Ports(t.Context(), 1, []*Sender{s}, 5, time.Minute)
		if err != nil || len(echoes) != 1 || echoes[0].Sent != 5 || echoes[0].Port != s.Port() || echoes[0].Back == 0 || echoes[0].RTT <= 0 {
			t.Errorf("%s: %+v %v", text, echoes, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
