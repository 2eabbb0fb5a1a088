package cpu

import "testing"

// What is learned about spins changes none of the yields that a wait has had since.
func TestSpinLearns(t *testing.T) {
	for _, rarely := range []bool{false, true} {
		s := NewSpin(300, rarely, nil)
		for range 1000 {
			s.idle = s.spins + 1
			s.learn()
			if s.idle != s.spins+1 || s.spins < 0 || s.spins > s.Max {
				t.Fatalf("%d looks, %d spins", s.idle, s.spins)
			}
		}
	}
}

// A wait spins first, and then yields until it is over.
func TestSpinYields(t *testing.T) {
	s := NewSpin(3, true, nil)
	for look := 1; look <= 10; look++ {
		if yields := s.Next(); yields != look-3 || s.Yielding() != (look > 3) {
			t.Fatalf("look %d: %d yields are due", look, yields)
		}
	}
	s.Reset()
	if yields := s.Next(); yields > 0 || s.Yielding() {
		t.Errorf("%d yields are due after a look that found something", yields)
	}
}
