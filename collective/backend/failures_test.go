package backend

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"ringcli/collective"
	"ringcli/collective/backend/nccltest"
	"ringcli/collective/reduce"
	"ringcli/verbs/gpu/gputest"
)

// failing runs an all-reduce that is expected to fail, and tells how.
func failing(ctx context.Context, r *rank, b Backend) error {
	return fails(ctx, b, collective.Call{Op: collective.OpAllReduce, Type: reduce.Float32, Count: 16})
}

// failingGroup is failing of what is several of the library's operations.
func failingGroup(ctx context.Context, r *rank, b Backend) error {
	return fails(ctx, b, collective.Call{Op: collective.OpReduceScatter, Type: reduce.Float32, Count: 17})
}

// closing only closes.
func closing(_ context.Context, _ *rank, b Backend) error {
	err := b.Close()
	if again := b.Close(); again != nil {
		return fmt.Errorf("the second Close failed, too: %w", again)
	}
	return err
}

func fails(ctx context.Context, b Backend, k collective.Call) error {
	buffer, err := alloc(b, 4096)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	k.Send, k.Recv = buffer.Addr(), buffer.Addr()
	h, err := b.Start(limited, k)
	if err != nil {
		return err
	}
	first := h.Wait(ctx)
	again := b.Run(ctx, k)
	if first == nil || again == nil || b.Err() == nil || again.Error() != b.Err().Error() {
		return fmt.Errorf("not failed: %w, then %w, and Err is %w", first, again, b.Err())
	}
	return first
}

// overlapping starts what uses the buffers of one in flight, which does not end by itself.
func overlapping(ctx context.Context, _ *rank, b Backend) error {
	buffer, err := alloc(b, 64)
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	k := collective.Call{Op: collective.OpAllReduce, Type: reduce.Float32, Count: 16, Send: buffer.Addr(), Recv: buffer.Addr()}
	first, err := b.Start(limited, k)
	if err != nil {
		return err
	}
	_, second := b.Start(ctx, k)
	return errors.Join(second, first.Wait(ctx))
}

// cancelled has one operation that lasts, and one behind it whose context ends.
func cancelled(ctx context.Context, b Backend, k collective.Call) error {
	first, err := b.Start(ctx, k)
	if err != nil {
		return err
	}
	behind, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	k.Send, k.Recv = k.Send+4096, k.Recv+4096
	second, err := b.Start(behind, k)
	if err != nil {
		return err
	}
	time.Sleep(200 * time.Millisecond) // in which the first one comes into the library
	cancel(errors.New("enough"))
	return errors.Join(first.Wait(ctx), second.Wait(ctx))
}

// cancelledTurn is cancelled, on all ranks.
func cancelledTurn(ctx context.Context, _ *rank, b Backend) error {
	buffer, err := alloc(b, 8192)
	if err != nil {
		return err
	}
	return cancelled(ctx, b, collective.Call{Op: collective.OpAllReduce, Type: reduce.Float32, Count: 16, Send: buffer.Addr(), Recv: buffer.Addr()})
}

// abandoned has an operation that the other rank does not join, and one behind it whose context
// ends: the first one's does not.
func abandoned(ctx context.Context, r *rank, b Backend) (err error) {
	if r.rank == 0 {
		buffer, failed := alloc(b, 8192)
		if failed != nil {
			return failed
		}
		k := collective.Call{Op: collective.OpReduceScatter, Type: reduce.Float32, Count: 17, Send: buffer.Addr(), Recv: buffer.Addr()} // a group
		err = cancelled(ctx, b, k)
	}
	_, gathered := r.gather(ctx, nil)
	return errors.Join(err, gathered)
}

// kept fails, and leaves the library what it may be at work on. Close tells of an abort that failed.
func kept(ctx context.Context, r *rank, b Backend) error {
	err := failing(ctx, r, b)
	closed := b.Close()
	if b.(*vendor).stream.Raw() == 0 {
		return errors.New("the stream is given back while the library may use it")
	}
	return errors.Join(err, closed)
}

// allKnow makes a communicator that fails, on all ranks alike.
func (r *rank) allKnow(ctx context.Context, timeout time.Duration) error {
	_, err := r.create(ctx, timeout)
	if e, all := errors.AsType[*RanksError](err); all {
		own, is := errors.AsType[*Error](err)
		if is != (e.Own != nil) || is && !strings.Contains(e.Error(), fmt.Sprintf("rank %d: %s", r.rank, own)) {
			return fmt.Errorf("%w: this rank's library has returned %s", err, fmt.Sprint(own))
		}
		return fmt.Errorf("one for all: %w", err)
	}
	return err
}

// absent has an operation that the other rank does not join and whose context never ends, one
// that waits for its turn, and a Close that comes meanwhile.
func absent(ctx context.Context, r *rank, b Backend) (err error) {
	if r.rank == 0 {
		ended := make(chan error, 2)
		for range cap(ended) {
			go func() { ended <- b.Run(context.Background(), collective.Call{Op: collective.OpBarrier}) }()
			time.Sleep(200 * time.Millisecond) // in which it comes into the library, or into the line
		}
		if err = b.Close(); err != nil {
			err = fmt.Errorf("Close: %w", err)
		}
		err = errors.Join(err, <-ended, <-ended)
	}
	_, gathered := r.gather(ctx, nil)
	return errors.Join(err, gathered)
}

// old asks for what the library's version has not.
func old(ctx context.Context, _ *rank, b Backend) error {
	buffer, err := alloc(b, 64)
	if err != nil {
		return err
	}
	k := collective.Call{Op: collective.OpAllReduce, Type: reduce.BFloat16, Count: 16, Send: buffer.Addr(), Recv: buffer.Addr()}
	averaged := k
	averaged.Type, averaged.Reduction = reduce.Float32, reduce.Avg
	return errors.Join(b.Run(ctx, k), b.Run(ctx, averaged))
}

// Each way to fail ends, and says how.
func TestFailures(t *testing.T) {
	t.Parallel()
	gpus := gputest.Build(t)
	nccl, blocking := nccltest.Build(t, nccltest.Sonames...)+":"+gpus, nccltest.BuildOld(t, nccltest.Sonames...)+":"+gpus
	const ofOne = "NCCLTEST_RANK=1"
	for _, c := range []struct {
		name, path, scenario string
		variables            []string
		want                 []string // of each rank
	}{
		{"a code", nccl, "failing", []string{"NCCLTEST_FAIL=ncclAllReduce:4"}, []string{"ncclAllReduce returned ncclInvalidArgument (4): invalid argument: ncclAllReduce was told to fail"}},
		{"an unknown code", nccl, "failing", []string{"NCCLTEST_FAIL=ncclAllReduce:99"}, []string{"returned a code that nccl.h has not (99): unknown result code"}},
		{"a code without last error", blocking, "failing", []string{"NCCLTEST_FAIL=ncclAllReduce:5"}, []string{"ncclAllReduce returned ncclInvalidUsage (5): invalid usage\n"}},
		{"asynchronous", nccl, "failing", []string{"NCCLTEST_ASYNC=6"}, []string{"ncclAllReduce, by ncclCommGetAsyncError, returned ncclRemoteError (6): remote process exited"}},
		{"asynchronous itself", nccl, "failing", []string{"NCCLTEST_FAIL=ncclCommGetAsyncError:2"}, []string{"ncclCommGetAsyncError returned ncclSystemError (2)"}},
		{"one rank fails", nccl, "failing", []string{"NCCLTEST_FAIL=ncclAllReduce:3", ofOne}, []string{"ncclAllReduce, by ncclCommGetAsyncError, returned ncclRemoteError (6)", "ncclAllReduce returned ncclInternalError (3)"}},
		{"a library that blocks", nccl, "failing", []string{"NCCLTEST_BLOCK=ncclAllReduce"}, []string{"deadline exceeded"}},
		{"an old one that blocks", blocking, "failing", []string{"NCCLTEST_BLOCK=ncclAllReduce"}, []string{"deadline exceeded"}},
		{"one that is stuck", nccl, "failing", []string{"NCCLTEST_STUCK=ncclAllReduce"}, []string{"deadline exceeded"}},
		{"stuck and not aborted", nccl, "failing", []string{"NCCLTEST_STUCK=ncclAllReduce,ncclCommAbort"}, []string{"deadline exceeded"}},
		{"an abort that is stuck", nccl, "kept", []string{"NCCLTEST_STUCK=ncclCommAbort", "NCCLTEST_FAIL=ncclAllReduce:3"}, []string{"ncclAllReduce returned ncclInternalError (3)"}},
		{"an abort that fails", nccl, "kept", []string{"NCCLTEST_FAIL=ncclCommAbort:1,ncclAllReduce:3"}, []string{"ncclCommAbort returned ncclUnhandledCudaError (1)"}},
		{"overlapping", nccl, "overlapping", []string{"NCCLTEST_BLOCK=ncclAllReduce"}, []string{"which belongs to all-reduce in flight until its handle resolves: wait for that, or use another buffer"}},
		{"cancelled before its turn", nccl, "cancelled", []string{"NCCLTEST_BLOCK=ncclAllReduce"}, []string{"enough"}},
		{"no group", nccl, "failing group", []string{"NCCLTEST_FAIL=ncclGroupStart:3"}, []string{"ncclGroupStart returned ncclInternalError (3)"}},
		{"no operation of a group", nccl, "failing group", []string{"NCCLTEST_FAIL=ncclReduce:4"}, []string{"ncclReduce returned ncclInvalidArgument (4)"}},
		{"no end of a group", nccl, "failing group", []string{"NCCLTEST_FAIL=ncclGroupEnd:5"}, []string{"ncclGroupEnd returned ncclInvalidUsage (5)"}},
		{"one's group that does not end", nccl, "failing group", []string{"NCCLTEST_FAIL=ncclGroupEnd:5", ofOne}, []string{"ncclGroupEnd, by ncclCommGetAsyncError, returned ncclRemoteError (6)", "ncclGroupEnd returned ncclInvalidUsage (5)"}},
		{"not finalized", nccl, "closing", []string{"NCCLTEST_FAIL=ncclCommFinalize:3"}, []string{"ncclCommFinalize returned ncclInternalError (3)"}},
		{"one not finalized", nccl, "closing", []string{"NCCLTEST_FAIL=ncclCommFinalize:3", ofOne}, []string{"OK", "ncclCommFinalize returned ncclInternalError (3)"}},
		{"finalized too slowly", nccl, "closing", []string{"NCCLTEST_BLOCK=ncclCommFinalize"}, []string{"ncclCommDestroy was given up after "}},
		{"not destroyed", nccl, "closing", []string{"NCCLTEST_FAIL=ncclCommDestroy:2"}, []string{"ncclCommDestroy returned ncclSystemError (2)"}},
		{"an old one not destroyed", blocking, "closing", []string{"NCCLTEST_FAIL=ncclCommDestroy:2"}, []string{"ncclCommDestroy returned ncclSystemError (2)"}},
		{"aborted by one behind it", nccl, "abandoned", nil, []string{"cancelled before its turn: enough", "OK"}},
		{"aborted within a group", nccl, "abandoned", []string{"NCCLTEST_SLOW=ncclReduce:400"}, []string{"cancelled before its turn: enough", "OK"}},
		{"an old one aborted by one behind it", blocking, "abandoned", nil, []string{"enough", "OK"}},
		{"no deadline, and a close", nccl, "absent", nil, []string{"nccl: barrier: barrier was given up after ", "OK"}},
		{"an old one, no deadline, and a close", blocking, "absent", nil, []string{"nccl: barrier: barrier was given up after ", "OK"}},
		{"an old communicator that comes late", blocking, "late", []string{"NCCLTEST_SLOW=ncclCommInitRank:3000"}, []string{"too long"}},
		{"no unique id", nccl, "create", []string{"NCCLTEST_FAIL=ncclGetUniqueId:2"}, []string{"rank 0: nccl: ncclGetUniqueId returned ncclSystemError (2)"}},
		{"no communicator", nccl, "create", []string{"NCCLTEST_FAIL=ncclCommInitRankConfig:5"}, []string{"making a communicator of 2 ranks: rank 0: nccl: ncclCommInitRankConfig returned ncclInvalidUsage (5)"}},
		{"no communicator of one", nccl, "create", []string{"NCCLTEST_FAIL=ncclCommInitRankConfig:5", ofOne}, []string{"one for all: nccl: making a communicator of 2 ranks: rank 0: ncclCommInitRankConfig was given up after"}},
		{"what one says at last", nccl, "create", []string{"NCCLTEST_FAIL=ncclCommInitRankConfig:5", ofOne}, []string{"; rank 1: nccl: ncclCommInitRankConfig returned ncclInvalidUsage (5)"}},
		{"one's communicator that fails later", nccl, "create", []string{"NCCLTEST_FAIL=ncclCommInitRank:3", ofOne}, []string{"; rank 1: nccl: ncclCommInitRankConfig, by ncclCommGetAsyncError, returned ncclInternalError (3)"}},
		{"one old communicator, for which another is stuck", blocking, "create", []string{"NCCLTEST_FAIL=ncclCommInitRank:3", ofOne}, []string{"; rank 1: nccl: ncclCommInitRank returned ncclInternalError (3)"}},
		{"no old communicator", blocking, "create", []string{"NCCLTEST_FAIL=ncclCommInitRank:5"}, []string{"ncclCommInitRank returned ncclInvalidUsage (5)"}},
		{"a communicator that fails later", nccl, "create", []string{"NCCLTEST_FAIL=ncclCommInitRank:3"}, []string{"ncclCommInitRankConfig, by ncclCommGetAsyncError, returned ncclInternalError (3)"}},
		{"a communicator that blocks", nccl, "create", []string{"NCCLTEST_BLOCK=ncclCommInitRank"}, []string{"deadline exceeded"}},
		{"an old one that is stuck", blocking, "create", []string{"NCCLTEST_STUCK=ncclCommInitRank"}, []string{"deadline exceeded"}},
		{"an old one's type and reduction", nccl, "old", []string{"NCCLTEST_VERSION=2908"}, []string{"nccl 2.9.8 has no element type bfloat16: expected 2.10.0 or later\nnccl 2.9.8 has no reduction avg: expected 2.10.0 or later"}},
		{"one's communicator that fails later, and whose abort is stuck", nccl, "create", []string{"NCCLTEST_FAIL=ncclCommInitRank:3", "NCCLTEST_STUCK=ncclCommAbort", ofOne}, []string{"one for all: "}},
		{"old ones that are stuck in making one", blocking, "create", []string{"NCCLTEST_STUCK=ncclCommInitRank,ncclCommAbort"}, []string{"one for all: "}},
		{"one that comes late", nccl, "waiting", []string{"NCCLTEST_SLOW=ncclCommInitRank:1500"}, []string{"OK"}},
		{"an interruption after the time to join", nccl, "interrupted", nil, []string{"too long", "one for all: "}},
		{"no library", gpus, "create", nil, []string{"not available: nccl: rank 0: libnccl.so.2 cannot be loaded"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			texts, called := world(t, c.path, NCCL, c.scenario, 2, c.variables...)
			if made, gone := called["communicator"], called["ncclCommDestroy"]+called["ncclCommAbort"]; made != gone && !strings.Contains(c.name, "stuck") {
				t.Errorf("%d communicators, %d destroyed and %d aborted: expected one end of each", made, called["ncclCommDestroy"], called["ncclCommAbort"])
			}
			for rank, text := range texts {
				if want := c.want[min(rank, len(c.want)-1)]; !strings.Contains(text, want) {
					t.Errorf("rank %d: %s\nexpected %q", rank, text, want)
				}
			}
		})
	}
}
