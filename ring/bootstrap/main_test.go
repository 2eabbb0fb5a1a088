package bootstrap

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"ringcli/ring/bootstrap/hosts"
)

// defaultPort is the port of entries that name none.
const defaultPort = 18600

// The tests wait, most of them for deadlines: eight at a time, whatever the CPUs.
func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", "8"); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// freshNodes returns n nodes on addresses of a 127.x.y.0/24 that nobody uses.
func freshNodes(t testing.TB, n int) []hosts.Node {
	t.Helper()
	for range 100 {
		x, y := 1+rand.IntN(254), 1+rand.IntN(254)
		ln, err := net.Listen("tcp", fmt.Sprintf("127.%d.%d.254:18600", x, y))
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = ln.Close() }) // holds the subnet against others that choose this way
		nodes := make([]hosts.Node, n)
		for i := range nodes {
			nodes[i] = hosts.Node{Host: fmt.Sprintf("127.%d.%d.%d", x, y, i+1), Port: defaultPort}
		}
		return nodes
	}
	t.Fatal("no free 127.x.y.0/24")
	return nil
}

// configFor is the Config of a rank on loopback.
func configFor(t testing.TB, nodes []hosts.Node, rank int) Config {
	t.Helper()
	found, err := hosts.Resolve(t.Context(), nodes, nil) // of addresses
	if err != nil {
		t.Fatal(err)
	}
	addrs := hosts.First(found, nodes)
	return Config{List: nodes, Rank: rank, Addrs: addrs, Bind: addrs[rank]}
}

func openRank(t testing.TB, cfg Config) *Control {
	t.Helper()
	c, err := Open(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	closeLater(t, c)
	return c
}

// opened has the Controls of each test, to be closed together at its end: each
// waits for its neighbours' goodbyes.
var opened sync.Map

func closeLater(t testing.TB, c *Control) {
	list, running := opened.LoadOrStore(t, &[]*Control{})
	world := list.(*[]*Control)
	*world = append(*world, c)
	if running {
		return
	}
	t.Cleanup(func() {
		opened.Delete(t)
		noErrors(t, each(*world, func(c *Control) error { return c.Close() }))
	})
}

// What the tests ask of a Control.

func (c *Control) Failed() bool { return c.Failure() != nil }

func (c *Control) GatherAll(ctx context.Context, data []byte) ([][]byte, error) {
	return c.Gather(ctx, Purpose{What: "gather"}, data)
}

func (c *Control) Barrier(ctx context.Context) error {
	_, err := c.Gather(ctx, Purpose{What: "barrier"}, nil)
	return err
}

func (c *Control) SampleClock(ctx context.Context) (err error) {
	for n := 0; n < clockBurst && err == nil; n++ {
		err = c.asks.sampleClock(ctx)
	}
	return err
}

// greeting is what the tests exchange.
type greeting struct {
	From int    `json:"from"`
	Side string `json:"side"`
}

// exchange runs Exchange and checks who the neighbours said they are.
func exchange(ctx context.Context, c *Control) error {
	fromLeft, fromRight, err := c.Exchange(ctx, greeting{c.own.rank, "left"}, greeting{c.own.rank, "right"})
	if err != nil {
		return err
	}
	wantLeft := fmt.Sprintf(`{"from":%d,"side":"right"}`, c.own.neighbour(left))
	wantRight := fmt.Sprintf(`{"from":%d,"side":"left"}`, c.own.neighbour(right))
	if string(fromLeft) != wantLeft || string(fromRight) != wantRight {
		return fmt.Errorf("rank %d got %s and %s, expected %s and %s", c.own.rank, fromLeft, fromRight, wantLeft, wantRight)
	}
	return nil
}

// each runs f for every Control at once and returns the errors by rank.
func each(world []*Control, f func(*Control) error) []error {
	errs := make([]error, len(world))
	var wg sync.WaitGroup
	for i, c := range world {
		wg.Go(func() { errs[i] = f(c) })
	}
	wg.Wait()
	return errs
}

// ring opens and connects n ranks.
func ring(t testing.TB, n int, change func(*Config)) []*Control {
	t.Helper()
	nodes := freshNodes(t, n)
	world := make([]*Control, n)
	for i := range world {
		cfg := configFor(t, nodes, i)
		if change != nil {
			change(&cfg)
		}
		world[i] = openRank(t, cfg)
	}
	ctx := within(t)
	noErrors(t, each(world, func(c *Control) error { return exchange(ctx, c) }))
	return world
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

// cutter keeps the connections that a Config makes, so that a test can cut them
// without a goodbye.
// The writers stop first, all at once, as those of a dead process do.
type cutter struct {
	gate  sync.RWMutex
	mu    sync.Mutex
	conns []net.Conn
	// what a dead process does not do any more, either
	listener net.Listener
	lingers  time.Duration // for so long its port takes calls that nobody answers
	dead     atomic.Bool
}

type cutConn struct {
	net.Conn
	k *cutter
}

func (c cutConn) Write(b []byte) (int, error) {
	c.k.gate.RLock()
	defer c.k.gate.RUnlock()
	return c.Conn.Write(b)
}

func (k *cutter) install(cfg *Config) {
	cfg.Listen = func(ctx context.Context, network, address string) (net.Listener, error) {
		var lc net.ListenConfig
		ln, err := lc.Listen(ctx, network, address)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.listener = ln
		return cutListener{ln, k}, err
	}
	cfg.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		var d net.Dialer
		c, err := d.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return k.keep(c), nil
	}
}

func (k *cutter) keep(c net.Conn) net.Conn {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.conns = append(k.conns, c)
	return cutConn{c, k}
}

func (k *cutter) cut() {
	k.gate.Lock()
	defer k.gate.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	k.dead.Store(true)
	if k.listener != nil && k.lingers == 0 {
		_ = k.listener.Close()
	} else if k.listener != nil {
		time.AfterFunc(k.lingers, func() { _ = k.listener.Close() })
	}
	for _, c := range k.conns {
		_ = c.Close()
	}
}

type cutListener struct {
	net.Listener
	k *cutter
}

func (l cutListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if !l.k.dead.Load() {
			return l.k.keep(c), nil
		}
		time.AfterFunc(l.k.lingers, func() { _ = c.Close() })
	}
}

func (l cutListener) Close() error {
	if err := l.Listener.Close(); !errors.Is(err, net.ErrClosed) { // by cut
		return err
	}
	return nil
}

var errNothing = errors.New("no error")

func textOf(err error) string {
	if err == nil {
		return errNothing.Error()
	}
	return err.Error()
}

func addrOf(n hosts.Node) netip.AddrPort {
	return netip.AddrPortFrom(netip.MustParseAddr(n.Host), uint16(n.Port))
}
