package links

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"sync"
	"testing"
	"time"

	"ringcli/ring"
	"ringcli/ring/meetings"
	"ringcli/verbs"
	_ "ringcli/verbs/soft"
)

// onPair runs a test at both ends of a pair, which are goroutines of this process.
func onPair(t *testing.T, how howTo, timeout time.Duration, test func(ctx context.Context, rank int, e *end) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	servers, errs := freshServers(t), [2]error{}
	var wg sync.WaitGroup
	for rank := range errs {
		wg.Go(func() { errs[rank] = onRank(ctx, servers, rank, how, timeout, test) })
	}
	wg.Wait()
	if err := errors.Join(errs[:]...); err != nil {
		t.Error(err)
	}
}

func onRank(ctx context.Context, servers []string, rank int, how howTo, timeout time.Duration, test func(context.Context, int, *end) error) (err error) {
	r, err := ring.Connect(ctx, servers, rank, ring.Options{Device: "soft:lo", Wait: verbs.WaitGosched})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.Close()) }()
	m, err := meetings.Open(ctx, r, how.bytes, how.outstanding, func(ctx context.Context, own meetings.Report, problem error) ([]meetings.Report, error) {
		if problem != nil {
			return nil, problem
		}
		data, err := json.Marshal(own)
		if err != nil {
			return nil, err
		}
		parts, err := r.Gather(ctx, ring.Purpose{What: "meetings", Do: "meet"}, data)
		all := make([]meetings.Report, len(parts))
		for i := range parts {
			err = errors.Join(err, json.Unmarshal(parts[i], &all[i]))
		}
		return all, err
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.Close()) }()
	x, err := m.Meet(1-rank, 0, 0, 0)
	if err != nil {
		return err
	}
	if err := r.Barrier(ctx); err != nil {
		return err
	}
	r.SetTimeout(timeout)
	if err := test(ctx, rank, newEnd(m, x, how, timeout, r.Err)); err != nil {
		return fmt.Errorf("rank %d: %w", rank, err)
	}
	r.SetTimeout(time.Minute)
	return r.Barrier(ctx)
}

// freshServers returns two addresses of a 127.x.y.0/24 that nobody uses. The address .254 stays
// bound to hold it.
func freshServers(t *testing.T) []string {
	t.Helper()
	for range 100 {
		subnet := fmt.Sprintf("127.%d.%d.", 1+rand.IntN(254), 1+rand.IntN(254))
		claim, err := net.Listen("tcp", subnet+"254:18600")
		if err != nil {
			continue
		}
		t.Cleanup(func() { _ = claim.Close() })
		return []string{subnet + "1", subnet + "2"}
	}
	t.Fatal("no free 127.x.y.0/24")
	return nil
}

// Who is cancelled while it blocks for the other end sees it at once, not some hundred waits
// later, which is more than 2.5 s. A busy machine may be as late, but not each time.
func TestCancelled(t *testing.T) {
	const most, tries = 2 * time.Second, 5
	how := howTo{bytes: 4096, small: 8, outstanding: 4, span: 20 * time.Millisecond}
	onPair(t, how, time.Minute, func(ctx context.Context, rank int, e *end) error {
		e.waiter.Policy = verbs.WaitBlock
		var took time.Duration
		for range tries {
			e.await(time.Minute)
			once, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
			begun := time.Now()
			err := e.hear(once, sayDone)
			took = time.Since(begun)
			cancel()
			if !errors.Is(err, context.DeadlineExceeded) || ctx.Err() != nil {
				return fmt.Errorf("%s after %s: expected the end of the context after 100 ms", fmt.Sprint(err), took)
			}
			if took < most {
				return nil
			}
		}
		return fmt.Errorf("it heard %d times of the end of a context of 100 ms after %s and more", tries, most)
	})
}

// What is asked for would keep the pair busy for longer than the others wait: it is measured with
// less, in time.
func TestPairInTime(t *testing.T) {
	const timeout = 10 * time.Second
	how := howTo{bytes: 32 << 20, small: 8, outstanding: 128, span: 40 * time.Millisecond}
	onPair(t, how, timeout, func(ctx context.Context, rank int, e *end) error {
		begun := time.Now()
		f, err := e.pair(ctx, rank == 0)
		if took := time.Since(begun); err != nil || took > timeout || f.Alone <= 0 { // on a busy machine it may be too slow for both ways at once
			return fmt.Errorf("%+v, %s after %s: expected figures within %s", f, fmt.Sprint(err), took, timeout)
		}
		return nil
	})
}

// A pair that nothing comes from is given up while the others still wait, whatever of its time it
// has used before.
func TestSilentPair(t *testing.T) {
	const timeout, used = 40 * time.Second, 30 * time.Second // 2 s are left to wait, and 8 s more to others
	how := howTo{bytes: 4096, small: 8, outstanding: 4, span: time.Second}
	onPair(t, how, timeout, func(ctx context.Context, rank int, e *end) error {
		if rank == 1 {
			return nil
		}
		begun := time.Now()
		e.limit = e.limit.Add(-used)
		e.await(time.Minute)
		err := e.hear(ctx, sayDone)
		if took := time.Since(begun); err == nil || took > timeout-used {
			return fmt.Errorf("%s after %s: expected an error before %s are over", fmt.Sprint(err), took, timeout-used)
		}
		return nil
	})
}

// There is time for three streams and for silence, whatever may be asked for.
func TestLimits(t *testing.T) {
	for _, timeout := range []time.Duration{time.Second, 30 * time.Second, time.Hour} {
		for _, patience := range []time.Duration{0, timeout / 5, timeout / 3} { // see meetings.Patience
			for _, span := range []time.Duration{leastTime, timeout / spanShare} {
				most, slack := limits(timeout, patience, span)
				if slack < timeout/30 || span+streams*slack+patience > most || most >= timeout {
					t.Errorf("timeout %s, patience %s, span %s: %s with %s of slack", timeout, patience, span, most, slack)
				}
			}
		}
	}
}
