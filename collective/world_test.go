package collective

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"ringcli/ring"
	"ringcli/verbs"
	_ "ringcli/verbs/shm"
	_ "ringcli/verbs/soft"
)

// world is a ring whose ranks are goroutines of this process.
type world struct {
	tb    testing.TB
	rings []*ring.Ring
	comms []*Comm
}

// newWorld brings up n ranks on a fresh 127.x.y.0/24, on device soft:lo if ro names
// none.
func newWorld(tb testing.TB, n int, ro ring.Options, co func(rank int) Options) *world {
	tb.Helper()
	if ro.Device == "" {
		ro.Device = "soft:lo"
	}
	return newWorldOf(tb, n, func(int) ring.Options { return ro }, co)
}

// newWorldOf is newWorld of ranks whose options differ.
func newWorldOf(tb testing.TB, n int, options func(rank int) ring.Options, co func(rank int) Options) *world {
	tb.Helper()
	w := connectWorld(tb, freshServers(tb, n), options, co)
	tb.Cleanup(w.close)
	return w
}

// connectWorld is newWorldOf of a list. The test closes it.
func connectWorld(tb testing.TB, servers []string, options func(rank int) ring.Options, co func(rank int) Options) *world {
	tb.Helper()
	n := len(servers)
	w := &world{tb: tb, rings: make([]*ring.Ring, n), comms: make([]*Comm, n)}
	errs := make([]error, n)
	var wg sync.WaitGroup
	for r := range n {
		wg.Go(func() {
			ro := options(r)
			ro.Wait = verbs.WaitGosched
			if ro.QPTimeout == nil {
				ro.QPTimeout = new(16) // 0.27 s, seven times: a rank may have no CPU for long on a busy machine
			}
			if ro.Timeout == 0 {
				ro.Timeout = 20 * time.Second
			}
			if w.rings[r], errs[r] = ring.Connect(context.Background(), servers, r, ro); errs[r] != nil {
				return
			}
			var o Options
			if co != nil {
				o = co(r)
			}
			if w.comms[r], errs[r] = New(w.rings[r], o); errs[r] == nil {
				errs[r] = w.comms[r].Agree(context.Background())
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		tb.Fatal(err)
	}
	return w
}

// timeout gives the operations from now on less time than the ring had to come up, on a
// busy machine.
func (w *world) timeout(d time.Duration) {
	for _, r := range w.rings {
		r.SetTimeout(d)
	}
}

func (w *world) close() {
	var wg sync.WaitGroup
	for r := range w.comms {
		wg.Go(func() {
			if err := errors.Join(w.comms[r].Close(), w.rings[r].Close()); err != nil {
				w.tb.Errorf("rank %d: close: %v", r, err)
			}
		})
	}
	wg.Wait()
}

// each runs f on every rank at once and returns the ranks' errors.
func (w *world) each(f func(rank int, c *Comm) error) []error {
	errs := make([]error, len(w.comms))
	var wg sync.WaitGroup
	for r, c := range w.comms {
		wg.Go(func() { errs[r] = f(r, c) })
	}
	wg.Wait()
	return errs
}

// must is each, where every rank must succeed.
func (w *world) must(f func(rank int, c *Comm) error) {
	w.tb.Helper()
	for r, err := range w.each(f) {
		if err != nil {
			w.tb.Errorf("rank %d: %v", r, err)
		}
	}
	if w.tb.Failed() {
		w.tb.FailNow()
	}
}

// freshServers returns n addresses of a 127.x.y.0/24 that nobody uses. The address
// .254 stays bound to hold it.
func freshServers(tb testing.TB, n int) []string {
	tb.Helper()
	for range 100 {
		subnet := fmt.Sprintf("127.%d.%d", 1+rand.IntN(250), 1+rand.IntN(250))
		claim, err := net.Listen("tcp", subnet+".254:18600")
		if err != nil {
			continue
		}
		tb.Cleanup(func() { _ = claim.Close() })
		servers := make([]string, n)
		for r := range servers {
			servers[r] = fmt.Sprintf("%s.%d", subnet, r+1)
		}
		return servers
	}
	tb.Fatal("no free 127.x.y.0/24")
	return nil
}
