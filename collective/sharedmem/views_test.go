package sharedmem

import (
	"errors"
	"testing"
)

// A region is asked for once, in part or whole, until others have come in between.
func TestViewsAreKept(t *testing.T) {
	asked := 0
	w := newWorld(t, 2, func(c *Config) {
		c.Map = func(_ int, _, addr, _ uint64) (uint64, error) {
			asked++
			return addr + 1<<40, nil
		}
	})
	team, p := w.teams[0], &w.teams[0].peers[1]
	look := func(key, addr, length uint64, news int) {
		t.Helper()
		before := asked
		local, err := team.find(p, key, addr, length)
		if err != nil || local != addr+1<<40 || asked-before != news {
			t.Errorf("key %d, %d bytes at %d: %#x, %v, asked %d times", key, length, addr, local, err, asked-before)
		}
	}
	look(1, 1000, 100, 1)
	look(1, 1000, 100, 0)
	look(1, 1050, 50, 0)
	look(1, 1050, 51, 1)
	look(1, 999, 10, 1)
	look(2, 1000, 100, 1)
	for key := range uint64(viewsKept) {
		look(10+key, 1000, 100, 1)
	}
	look(1, 1000, 100, 1)
	if _, err := team.find(p, 1, ^uint64(0)-5, 10); !errors.Is(err, ErrProtocol) {
		t.Errorf("beyond the address space: %v", err)
	}
}
