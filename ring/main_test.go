package ring

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringcli/verbs"
	_ "ringcli/verbs/soft"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// freshServers returns n addresses of a 127.x.y.0/24 that nobody uses. The
// address .254 stays bound to hold it.
func freshServers(t testing.TB, n int) []string {
	t.Helper()
	for range 100 {
		x, y := 1+rand.IntN(254), 1+rand.IntN(254)
		claim, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.254:18600", x, y))
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = claim.Close() })
		servers := make([]string, n)
		for i := range servers {
			servers[i] = fmt.Sprintf("127.%d.%d.%d", x, y, i+1)
		}
		return servers
	}
	t.Fatal("no free 127.x.y.0/24")
	return nil
}

// testOptions are those of ranks that share a process.
func testOptions() Options {
	return Options{Device: "soft:lo", Wait: verbs.WaitGosched, Timeout: 10 * time.Second, Slots: 4, SlotSize: 4096}
}

// connect brings up n ranks; they are closed together at the end of the test.
func connect(t testing.TB, n int, change func(rank int, o *Options)) []*Ring {
	t.Helper()
	servers := freshServers(t, n)
	world := make([]*Ring, n)
	errs := make([]error, n)
	var wg sync.WaitGroup
	for i := range world {
		o := testOptions()
		if change != nil {
			change(i, &o)
		}
		wg.Go(func() { world[i], errs[i] = Connect(t.Context(), servers, i, o) })
	}
	wg.Wait()
	noErrors(t, errs)
	t.Cleanup(func() { noErrors(t, each(world, func(r *Ring) error { return r.Close() })) })
	return world
}

// setTimeout gives what ranks do from now on less time than they had to come up, on a busy
// machine.
func setTimeout(world []*Ring, d time.Duration) {
	for _, r := range world {
		r.SetTimeout(d)
	}
}

// newRings makes rings that have taken no step yet, and closes them at the end.
func newRings(t testing.TB, n int, change func(rank int, o *Options)) []*Ring {
	t.Helper()
	servers := freshServers(t, n)
	world := make([]*Ring, n)
	for i := range world {
		o := testOptions()
		if change != nil {
			change(i, &o)
		}
		var err error
		if world[i], err = New(servers, i, o); err != nil {
			t.Fatal(err)
		}
	}
	t.Cleanup(func() { noErrors(t, each(world, func(r *Ring) error { return r.Close() })) })
	return world
}

// each runs f on every rank at once and returns the errors by rank.
func each(world []*Ring, f func(*Ring) error) []error {
	errs := make([]error, len(world))
	var wg sync.WaitGroup
	for i, r := range world {
		wg.Go(func() { errs[i] = f(r) })
	}
	wg.Wait()
	return errs
}

// through takes all steps up to and including RTS.
func through(ctx context.Context) func(*Ring) error {
	return func(r *Ring) error {
		for _, step := range walk(r) {
			if err := step(ctx); err != nil {
				return err
			}
		}
		return nil
	}
}

// proper is a step with the proper values.
func proper(step func(context.Context, Values) error) func(context.Context) error {
	return func(ctx context.Context) error { return step(ctx, Values{}) }
}

// walk returns all steps up to and including RTS.
func walk(r *Ring) []func(context.Context) error {
	return []func(context.Context) error{r.Open, proper(r.Init), r.Exchange, proper(r.RTR), r.AwaitNeighbours, proper(r.RTS)}
}

func noErrors(t testing.TB, errs []error) {
	t.Helper()
	for i, err := range errs {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
	if t.Failed() {
		t.FailNow()
	}
}

func textOf(err error) string {
	if err == nil {
		return "no error"
	}
	return err.Error()
}

// wire keeps the TCP connections of a rank, so that a test can cut them without
// a goodbye, or stall them.
type wire struct {
	mu        sync.Mutex
	conns     []net.Conn
	listeners []net.Listener
	gate      sync.RWMutex // held to stall
}

func (w *wire) install(o *Options) {
	o.Listen = func(ctx context.Context, network, address string) (net.Listener, error) {
		var lc net.ListenConfig
		ln, err := lc.Listen(ctx, network, address)
		if err != nil {
			return nil, err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.listeners = append(w.listeners, ln)
		return &wireListener{ln, w}, nil
	}
	o.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return w.keep(c), nil
	}
}

func (w *wire) keep(c net.Conn) net.Conn {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.conns = append(w.conns, c)
	return &wireConn{c, w}
}

// cut closes all sockets at once, as a process that dies does: nothing is
// written after the first has gone, and the port refuses calls.
func (w *wire) cut() {
	w.gate.Lock()
	defer w.gate.Unlock()
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, ln := range w.listeners {
		_ = ln.Close()
	}
	for _, c := range w.conns {
		_ = c.Close()
	}
}

type wireListener struct {
	net.Listener
	w *wire
}

func (l *wireListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return l.w.keep(c), nil
}

func (l *wireListener) Close() error {
	if err := l.Listener.Close(); !errors.Is(err, net.ErrClosed) { // by cut
		return err
	}
	return nil
}

type wireConn struct {
	net.Conn
	w *wire
}

func (c *wireConn) Write(b []byte) (int, error) {
	c.w.gate.RLock()
	defer c.w.gate.RUnlock()
	return c.Conn.Write(b)
}

// begin begins an operation of a ring.
func begin(t *testing.T, r *Ring) Token {
	t.Helper()
	token, err := r.Begin(t.Context())
	if err != nil {
		t.Error(err)
	}
	return token
}
