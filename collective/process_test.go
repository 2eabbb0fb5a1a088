package collective

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs/memory"
	"ringcli/verbs/verbstest"
)

// rankEnv makes this test binary a rank of its own, which does what the JSON in the
// variable says.
const rankEnv = "RINGTEST_COLLECTIVE_RANK"

// raceSkips are what the race detector does not watch, under which it takes minutes: matrices of
// sums, and tables of who is told what. What is concurrent in them is so in the tests of channels,
// barriers, failures and kills.
const raceSkips = "Matrix|LargeByEveryAlgorithm|ResultsInPlaceAmongOthers|CallsOfRooted|Disagreement|IdleRankIsNamed|DocumentedOrders|VerifyNamesTheEdge"

func TestMain(m *testing.M) {
	if text := os.Getenv(rankEnv); text != "" {
		if err := rankMain(text); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	if verbstest.Race {
		if err := flag.Set("test.skip", raceSkips); err != nil { // which the command line replaces
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	os.Exit(m.Run())
}

// rankJob is what a rank that is a process does: operations of all kinds, which a
// seed chooses, until one fails.
type rankJob struct {
	Servers []string
	Rank    int
	Device  string
	Hosts   string // as ring.Options has it
	Seed    uint64
	Timeout time.Duration // 0 is rankTimeout; of operations
	Steady  bool          // one operation over and over
	Flights bool          // eight at a time are started, and then waited for
	Shares  bool          // private memory is shared, and not registered as it is
	Barrier bool          // barriers, by each algorithm in turn
	Dies    int           // a stage in which Victim kills itself: see TestKilledInside
	Victim  int
	Grows   bool // what TestGrowthOfProcesses looks at, and no more
}

// rankSays is a line that it prints.
type rankSays struct {
	What    string   // "connected", "working", "grown" or "failed"
	Sockets []string `json:",omitempty"` // its abstract Unix sockets
	Error   string   `json:",omitempty"`
	At      int64    // nanoseconds of the Unix time
	Number  uint64   `json:",omitempty"` // of operations
	Began   int64    `json:",omitempty"` // to connect, and when it had; as At
	Ready   int64    `json:",omitempty"`
	Steps   []grown  `json:",omitempty"`
}

// rankTimeout is for every wait; what survivors of a killed rank take is far below.
const rankTimeout = 20 * time.Second

func rankMain(text string) (err error) {
	var job rankJob
	if err := json.Unmarshal([]byte(text), &job); err != nil {
		return err
	}
	out := json.NewEncoder(os.Stdout)
	say := func(s rankSays) {
		s.At = time.Now().UnixNano()
		_ = out.Encode(s) // the test ends who prints nothing
	}
	go func() { // who started it has gone
		_, _ = io.Copy(io.Discard, os.Stdin)
		os.Exit(1)
	}()
	if job.Grows {
		said, err := job.grow()
		if err != nil {
			said.Error = err.Error()
		}
		say(said)
		return nil
	}
	r, err := ring.Connect(context.Background(), job.Servers, job.Rank, ring.Options{Device: job.Device, Hosts: job.Hosts, Timeout: rankTimeout})
	if err != nil {
		say(rankSays{What: "failed", Error: err.Error()})
		return nil
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	sockets, err := unixSockets()
	if err != nil {
		return err
	}
	say(rankSays{What: "connected", Sockets: sockets})
	r.SetTimeout(cmp.Or(job.Timeout, rankTimeout))
	c, err := New(r, Options{})
	if err != nil {
		say(rankSays{What: "failed", Error: err.Error()})
		return nil
	}
	s, err := newWorkload(c, job)
	if err != nil {
		return errors.Join(err, c.Close())
	}
	defer func() { err = errors.Join(err, c.Close(), s.private.Free()) }()
	for {
		next := s.next
		switch {
		case job.Flights:
			next = s.fly
		case job.Barrier:
			next = s.barrier
		case job.Dies > 0:
			next = func() error { return s.dies(job) }
		}
		err := next()
		switch {
		case errors.Is(err, errWrong):
			return err
		case err != nil:
			say(rankSays{What: "failed", Error: err.Error(), Number: c.watch.Seq})
			return nil
		case s.done == 1:
			say(rankSays{What: "working"})
		}
	}
}

var errWrong = errors.New("wrong result")

// workload is a rank's operations, one after the other.
type workload struct {
	c       *Comm
	rng     *rand.Rand // the same on all ranks
	own     *rand.Rand // of this rank: where its buffers are
	done    int
	steady  bool
	private *memory.Block
	pairs   [2][2]*Buffer // send and receive: from Alloc, and private
}

// workloadMost is the longest vector in bytes.
const workloadMost = 4 << 20

func newWorkload(c *Comm, job rankJob) (s *workload, err error) {
	s = &workload{c: c, steady: job.Steady, rng: rand.New(rand.NewPCG(job.Seed, 0)), own: rand.New(rand.NewPCG(job.Seed, 1+uint64(c.Rank())))}
	if s.private, err = memory.Alloc(2 * workloadMost); err != nil {
		return nil, err
	}
	for i := range s.pairs[1] {
		addr := s.private.Addr() + uint64(i*workloadMost)
		if job.Shares {
			s.pairs[1][i], err = c.Share(addr, workloadMost, MayMove)
		} else {
			s.pairs[1][i], err = c.Register(addr, workloadMost)
		}
		if err != nil {
			return nil, errors.Join(err, s.private.Free())
		}
	}
	return s, nil
}

// streamWays are the ways of a call that take turns, the usual one more often.
var streamWays = append(allWays(), CallOptions{}, CallOptions{}, CallOptions{}, CallOptions{Sync: true}, CallOptions{Algorithm: AlgorithmRing, Protocol: Direct},
	CallOptions{Algorithm: AlgorithmInbox, Protocol: Direct}, CallOptions{Algorithm: AlgorithmInbox, Protocol: Eager}, hierarchical)

// next runs the next operation and looks at its result. Each element of a rank's
// input is its rank + 1.
func (s *workload) next() error {
	ctx, c := context.Background(), s.c
	if s.steady {
		s.done++
		return c.AllReduce(ctx, s.pairs[1][0].Addr(), s.pairs[1][1].Addr(), 1<<16, reduce.Int32, reduce.Sum, CallOptions{})
	}
	count := 2 << s.rng.IntN(20) // 8 bytes to 4 MiB
	if s.rng.IntN(4) == 0 {
		count += s.rng.IntN(count)
		count = min(count, workloadMost/4)
	}
	way, op := streamWays[s.rng.IntN(len(streamWays))], s.rng.IntN(9)
	if h := c.Hosts(); way == hierarchical && (h == nil || h.Number() == 1) {
		way = CallOptions{}
	}
	if c.Size() > way.Algorithm.MaxRanks(way.Protocol, false) {
		way = CallOptions{}
	}
	pair := &s.pairs[s.own.IntN(2)]
	if pair == &s.pairs[0] {
		if err := s.renew(); err != nil {
			return err
		}
	}
	send, recv := memory.Slice[int32](pair[0].Addr(), count), memory.Slice[int32](pair[1].Addr(), count)
	lo, hi := reduce.Chunk(count, c.Size(), c.Rank())
	for i := range send {
		send[i] = int32(c.Rank() + 1)
	}
	sum := int32(c.Size() * (c.Size() + 1) / 2)
	var err error
	var got, want []int32
	switch {
	case op == 0:
		err = c.Barrier(ctx)
	case op == 1:
		k := Call{Op: OpAllReduce, Send: pair[0].Addr(), Recv: pair[1].Addr(), Count: count, Type: reduce.Int32, Unregistered: true}
		if err = c.Run(ctx, k); errors.Is(err, ErrUnregistered) {
			k.Unregistered = false
			err = c.Run(ctx, k)
		}
		got, want = []int32{recv[0], recv[count/2], recv[count-1]}, []int32{sum, sum, sum}
	case op < 4:
		way = c.elseEager(OpReduceScatter, way)
		err = c.ReduceScatter(ctx, pair[0].Addr(), pair[1].Addr(), count, reduce.Int32, reduce.Sum, way)
		if hi > lo {
			got, want = []int32{recv[0], recv[hi-lo-1]}, []int32{sum, sum}
		}
	case op < 6:
		way = c.elseEager(OpAllGather, way)
		err = c.AllGather(ctx, pair[0].Addr(), pair[1].Addr(), count, reduce.Int32, way)
		got, want = []int32{recv[lo], recv[count-1]}, []int32{int32(c.Rank() + 1), int32(c.Size())}
		if hi == lo {
			got, want = got[1:], want[1:]
		}
	default:
		err = c.AllReduce(ctx, pair[0].Addr(), pair[1].Addr(), count, reduce.Int32, reduce.Sum, way)
		got, want = []int32{recv[0], recv[count/2], recv[count-1]}, []int32{sum, sum, sum}
	}
	if err == nil && !slices.Equal(got, want) {
		return fmt.Errorf("%w: operation %d, rank %d, count %d, %s: got %d, want %d", errWrong, c.watch.Seq, c.Rank(), count, wayName(way), got, want)
	}
	if err == nil {
		s.done++
	}
	return err
}

// fly starts eight operations and waits for all. Its error has a line for each that failed.
func (s *workload) fly() error {
	const flights, count = 8, 1 << 14
	var handles []*Handle
	for i := range uint64(flights) {
		at := i * count * 4
		h, err := s.c.Start(context.Background(), Call{
			Op: OpAllReduce, Type: reduce.Int32, Count: count >> (i % 4 * 3), Send: s.pairs[1][0].Addr() + at, Recv: s.pairs[1][1].Addr() + at,
		})
		if err != nil {
			return err
		}
		handles = append(handles, h)
	}
	var errs []error
	for _, h := range handles {
		ctx, cancel := context.WithTimeout(context.Background(), rankTimeout)
		errs = append(errs, h.Wait(ctx))
		cancel()
	}
	s.done++
	return errors.Join(errs...)
}

// barrier is the next of a stream of barriers. The first is the usual one.
func (s *workload) barrier() error {
	ways := barrierWays("")
	s.done++
	return s.c.Run(context.Background(), Call{Op: OpBarrier, CallOptions: ways[(s.done-1)%len(ways)]})
}

// renew takes new memory from Alloc now and then, which may lie where old did.
func (s *workload) renew() (err error) {
	for i, b := range s.pairs[0] {
		if b != nil && s.own.IntN(8) > 0 {
			continue
		}
		if b != nil {
			if err := b.Free(); err != nil {
				return err
			}
		}
		if s.pairs[0][i], err = s.c.Alloc(workloadMost); err != nil {
			return err
		}
	}
	return nil
}

// unixSockets returns the names of this process's abstract Unix sockets.
func unixSockets() (names []string, err error) {
	channels, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return nil, err
	}
	inodes := map[string]bool{}
	for _, l := range channels {
		if to, err := os.Readlink(l); err == nil { // else it was of Glob itself
			if inode, ok := strings.CutPrefix(to, "socket:["); ok {
				inodes[strings.TrimSuffix(inode, "]")] = true
			}
		}
	}
	table, err := os.ReadFile("/proc/self/net/unix")
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(table)) {
		// Num RefCount Protocol Flags Type St Inode Path: proc(5).
		if f := strings.Fields(line); len(f) == 8 && inodes[f[6]] && !slices.Contains(names, f[7]) {
			names = append(names, f[7])
		}
	}
	return names, nil
}

// rankProcess is a rank that is another process.
type rankProcess struct {
	cmd    *exec.Cmd
	stdin  io.Closer
	stderr strings.Builder
	said   chan rankSays // closed at its end
}

// startRanks starts all ranks of a ring, with files for temporary in a directory.
func startRanks(t *testing.T, n int, job rankJob, temporary string) []*rankProcess {
	t.Helper()
	subnet := fmt.Sprintf("127.%d.%d", 1+rand.IntN(250), 1+rand.IntN(250))
	for r := range n {
		job.Servers = append(job.Servers, fmt.Sprintf("%s.%d", subnet, r+1))
	}
	ranks := make([]*rankProcess, n)
	for r := range ranks {
		job.Rank = r
		text, err := json.Marshal(job)
		if err != nil {
			t.Fatal(err)
		}
		p := &rankProcess{cmd: exec.Command("/proc/self/exe"), said: make(chan rankSays, 16)}
		p.cmd.Env = append(os.Environ(), rankEnv+"="+string(text), "TMPDIR="+temporary, "GORACE=atexit_sleep_ms=0")
		p.cmd.Stderr = &p.stderr
		if p.stdin, err = p.cmd.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		out, err := p.cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := p.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		var reading sync.WaitGroup
		reading.Go(func() {
			defer close(p.said)
			for lines := bufio.NewScanner(out); lines.Scan(); {
				var s rankSays
				if json.Unmarshal(lines.Bytes(), &s) == nil {
					p.said <- s
				}
			}
		})
		t.Cleanup(func() {
			_ = p.stdin.Close()
			if p.cmd.ProcessState == nil {
				_ = p.cmd.Process.Kill()
				_ = p.cmd.Wait()
			}
			reading.Wait()
		})
		ranks[r] = p
	}
	return ranks
}

// awaits returns the next line of a rank, which is to be of a kind.
func (p *rankProcess) awaits(what string, limit time.Duration) (rankSays, error) {
	select {
	case s, ok := <-p.said:
		switch {
		case !ok:
			return s, fmt.Errorf("it ended, and never said %q: %s", what, p.stderr.String())
		case s.What != what:
			return s, fmt.Errorf("it says %+v, want %q", s, what)
		}
		return s, nil
	case <-time.After(limit):
		return rankSays{}, fmt.Errorf("it did not say %q in %v", what, limit)
	}
}
