package launch_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/launch"
	"ringcli/ring/bootstrap/seal"
)

// errLate is the cause of the deadlines of tests.
var errLate = errors.New("too late")

// moment is how long a rank waits for what does not come, before its deadline.
const moment = 100 * time.Millisecond

func within(t *testing.T, d time.Duration) context.Context {
	ctx, cancel := context.WithTimeoutCause(t.Context(), d, errLate)
	t.Cleanup(cancel)
	return ctx
}

// at is a rank of those that meet at a port.
func at(port, rank, size int) launch.Options {
	return launch.Options{Kind: launch.Master, Rank: rank, Size: size, MasterAddr: "127.0.0.1", MasterPort: port}
}

// together has some ranks gather, and returns what each says in the end.
func together(ctx context.Context, options ...launch.Options) []error {
	errs := make([]error, len(options))
	var wg sync.WaitGroup
	for i, o := range options {
		wg.Go(func() {
			l, err := launch.Open(ctx, o)
			if err == nil {
				_, err = l.AllGather(ctx, nil)
				err = errors.Join(err, l.Close())
			}
			errs[i] = err
		})
	}
	wg.Wait()
	return errs
}

func says(t *testing.T, err error, isUsage bool, words ...string) {
	t.Helper()
	for _, w := range words {
		if err == nil || !strings.Contains(err.Error(), w) {
			t.Errorf("%v: expected %q", err, w)
		}
	}
	if usage.Is(err) != isUsage {
		t.Errorf("%v: an error of usage: %v: expected %v", err, usage.Is(err), isUsage)
	}
}

// One of four does not come: the others say who, and who is there, whoever's time is over
// first.
func TestAbsent(t *testing.T) {
	t.Parallel()
	const size, absent, patient = 4, 2, time.Minute
	for first, why := range map[int]string{0: errLate.Error(), 3: "has hung up before all ranks were there"} {
		t.Run(fmt.Sprintf("rank %d ends first", first), func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			errs := make([]error, size)
			var wg sync.WaitGroup
			for rank := range size {
				if rank == absent {
					continue
				}
				ctx := within(t, patient)
				if rank == first {
					ctx = within(t, 6*time.Second)
				}
				wg.Go(func() { errs[rank] = together(ctx, at(port, rank, size))[0] })
			}
			wg.Wait()
			says(t, errs[0], false, "awaited rank 2; came: rank 0, rank 1 (host ", ", rank 3 (host ", why)
			for _, rank := range []int{1, 3} {
				says(t, errs[rank], false, "rank 2", "rank 0 at 127.0.0.1")
			}
		})
	}
}

// Rank 0 does not come; others look for it to the end. A name that is not there is looked for
// as well: it may be in a moment (Kubernetes).
func TestNoHost(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	named := at(port, 1, 2)
	named.MasterAddr = "no-such-host.invalid"
	errs := together(within(t, 3*time.Second), at(port, 1, 2), named)
	says(t, errs[0], false, fmt.Sprintf("rank 1 of 2: awaited rank 0 at 127.0.0.1:%d", port), "connection refused", errLate.Error())
	says(t, errs[1], false, "awaited rank 0 at no-such-host.invalid", errLate.Error())
}

// A rank goes before all are there: the others hear it at once, long before their deadline.
func TestGone(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	ctx := within(t, hung)
	ranks := make([]launch.Launcher, 3)
	for r := range ranks {
		var err error
		if ranks[r], err = launch.Open(ctx, at(port, r, 3)); err != nil {
			t.Fatal(err)
		}
	}
	if err := ranks[2].Close(); err != nil {
		t.Fatal(err)
	}
	errs := make([]error, 2)
	var wg sync.WaitGroup
	for r := range errs {
		wg.Go(func() {
			_, errs[r] = ranks[r].AllGather(ctx, nil)
			if err := ranks[r].Close(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, err := range errs {
		says(t, err, false, "rank 2 (host ", "has hung up before all ranks were there")
	}
}

// Settings that differ are told to whoever calls, which ends; the others wait for another.
func TestDisagree(t *testing.T) {
	t.Parallel()
	tokens := make([]*seal.Token, 2)
	for i := range tokens {
		var err error
		if tokens[i], err = seal.New(fmt.Appendf(nil, "a secret of rank %d's", i)); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		host, guest func(o *launch.Options)
		want        string
	}{
		"size":     {func(o *launch.Options) { o.Size = 3 }, func(*launch.Options) {}, "is one of 3 ranks, and rank 1 one of 2"},
		"no token": {func(o *launch.Options) { o.Token = tokens[0] }, func(*launch.Options) {}, "one has a token, the other has none"},
		"token":    {func(o *launch.Options) { o.Token = tokens[0] }, func(o *launch.Options) { o.Token = tokens[1] }, "rank 0 has another token than this rank"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			port := freePort(t)
			host, guest := at(port, 0, 2), at(port, 1, 2)
			c.host(&host)
			c.guest(&guest)
			l, err := launch.Open(t.Context(), host)
			if err != nil {
				t.Fatal(err)
			}
			says(t, together(within(t, hung), guest)[0], true, c.want)
			if err := l.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

// Two processes with one rank: the second is told who is there.
func TestTwins(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	ctx := within(t, hung)
	host, err := launch.Open(ctx, at(port, 0, 3))
	if err != nil {
		t.Fatal(err)
	}
	first, err := launch.Open(ctx, at(port, 1, 3))
	if err != nil {
		t.Fatal(err)
	}
	says(t, together(ctx, at(port, 1, 3))[0], true, "rank 1 (host ", "is here, and rank 1 (host ", "each rank needs its own --index")
	if err := errors.Join(first.Close(), host.Close()); err != nil {
		t.Error(err)
	}
}

// Others have the first ports: one is silent, one speaks at once, one is of another job, and
// hangs up on nobody.
func TestStrangersAtThePort(t *testing.T) {
	port := freePort(t)
	for i, talk := range []string{"", "SSH-2.0-x\r\n"} {
		ln, err := net.Listen("tcp", fmt.Sprintf(":%d", port+i))
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = ln.Close() }()
		go func() {
			for {
				conn, err := ln.Accept()
				if err != nil {
					return
				}
				_, _ = io.WriteString(conn, talk)
				go func() { _, _ = io.Copy(io.Discard, conn) }()
			}
		}()
	}
	t.Setenv("TORCHELASTIC_RUN_ID", "another")
	other, err := launch.Open(t.Context(), at(port, 0, 2))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = other.Close() }()
	t.Setenv("TORCHELASTIC_RUN_ID", "this")
	for i, err := range together(within(t, hung), at(port, 0, 3), at(port, 1, 3), at(port, 2, 3)) {
		if err != nil {
			t.Errorf("rank %d: %v", i, err)
		}
	}
	t.Setenv("TORCHELASTIC_RUN_ID", "a third")
	says(t, together(within(t, 7*time.Second), at(port, 1, 2))[0], false, "nobody there speaks for this job", "another program listens there")
}

// torchrun's agent has the port, and nobody disturbs it. Without the agent it is rank 0's.
func TestAgentsStore(t *testing.T) {
	for _, has := range []string{"True", "False"} {
		t.Run(has, func(t *testing.T) {
			port := freePort(t)
			if has == "True" {
				ln, err := net.Listen("tcp", fmt.Sprintf(":%d", port))
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = ln.Close() }()
				go func() {
					if _, err := ln.Accept(); err == nil {
						t.Error("a rank has called the agent's store")
					}
				}()
			}
			t.Setenv("TORCHELASTIC_RUN_ID", "none")
			t.Setenv("TORCHELASTIC_USE_AGENT_STORE", has)
			for i, err := range together(within(t, hung), at(port, 0, 3), at(port, 1, 3), at(port, 2, 3)) {
				if err != nil {
					t.Errorf("rank %d: %v", i, err)
				}
			}
		})
	}
}

// All ports are taken.
func TestNoPort(t *testing.T) {
	t.Parallel()
	port := freePort(t)
	for i := range 8 {
		ln, err := net.Listen("tcp", fmt.Sprintf(":%d", port+i))
		if err != nil {
			t.Skip(err) // another test has it, which is as good
		}
		defer func() { _ = ln.Close() }()
	}
	says(t, together(within(t, hung), at(port, 0, 2))[0], true, "rank 0 of 2", fmt.Sprint(port), "8 in all", "another --master-port")
}

// A manager of PMI-1 that goes, or does not answer, is told of.
func TestManagerFails(t *testing.T) {
	for name, c := range map[string]struct {
		answers int              // how many
		then    func(m *manager) // nil: it is silent, and soon the deadline comes
		want    string
	}{
		"hangs up":            {0, func(m *manager) { m.hangUp() }, "has closed PMI_FD instead of an answer to cmd=init"},
		"says nothing":        {0, nil, "awaited the launcher's answer to PMI's cmd=init"},
		"others do not come":  {4, nil, "awaited all ranks at PMI's barrier"},
		"refuses what is put": {3, func(m *manager) { m.say("cmd=put_result rc=-1 msg=no_room") }, `the launcher says "cmd=put_result rc=-1 msg=no_room"`},
		"says another thing":  {1, func(m *manager) { m.say("cmd=spawn_result rc=0") }, "expected cmd=maxes rc=0"},
		"takes too little":    {1, func(m *manager) { m.say("cmd=maxes vallen_max=4") }, `values of "4" bytes`},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, late := context.WithCancelCause(within(t, hung))
			defer late(nil)
			then := c.then
			if then == nil {
				then = func(*manager) { time.AfterFunc(moment, func() { late(errLate) }) }
			}
			m := newManager(t, 2)
			m.limit(c.answers, then)
			defer m.hangUp()
			fd, err := unix.Dup(int(m.ends[0].Fd())) // which the launcher closes
			if err != nil {
				t.Fatal(err)
			}
			for _, end := range m.ends {
				if err := end.Close(); err != nil { // the others do not come
					t.Fatal(err)
				}
			}
			for name, value := range map[string]string{"PMI_FD": fmt.Sprint(fd), "PMI_RANK": "0", "PMI_SIZE": "2"} {
				t.Setenv(name, value)
			}
			l, err := launch.Open(ctx, launch.Options{Kind: launch.PMI})
			if err == nil {
				_, err = l.AllGather(ctx, []byte("x"))
				m.hangUp()
				if l.Close() == nil {
					t.Error("it has finalized at a manager that has hung up")
				}
			}
			says(t, err, false, c.want, "rank 0 of 2")
		})
	}
}

// Others do not come to PMI's barrier, or do so once it was given up: the manager is told that
// this rank ends in good order, and its error is one of the barrier alone.
func TestManagerHearsTheEnd(t *testing.T) {
	for name, word := range map[string]string{"they do not come": "", "they come late": "cmd=barrier_out"} {
		t.Run(name, func(t *testing.T) {
			ctx, late := context.WithCancelCause(within(t, hung))
			defer late(nil)
			m := newManager(t, 1)
			m.limit(4, func(m *manager) { // it is at the barrier
				m.limit(-1, nil)
				time.AfterFunc(moment, func() { late(errLate) })
			})
			fd, err := unix.Dup(int(m.ends[0].Fd())) // which the launcher closes
			if err == nil {
				err = m.ends[0].Close()
			}
			if err != nil {
				t.Fatal(err)
			}
			for name, value := range map[string]string{"PMI_FD": fmt.Sprint(fd), "PMI_RANK": "0", "PMI_SIZE": "2"} {
				t.Setenv(name, value)
			}
			l, err := launch.Open(within(t, hung), launch.Options{Kind: launch.PMI})
			if err != nil {
				t.Fatal(err)
			}
			_, err = l.AllGather(ctx, []byte("x"))
			says(t, err, false, "awaited all ranks at PMI's barrier", errLate.Error())
			if word != "" {
				m.say(word)
			}
			if err := l.Close(); err != nil {
				t.Error(err)
			}
			m.finalized(t)
		})
	}
}
