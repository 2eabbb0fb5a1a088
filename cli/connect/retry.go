package connect

import (
	"context"
	"errors"
	"time"

	"ringcli/cli/exit"
	"ringcli/cli/failure"
	"ringcli/cli/lines"
	"ringcli/cli/session"
	"ringcli/ring"
	"ringcli/ring/bootstrap"
)

// retryFlag is for how long a ring that has failed is tried again.
const retryFlag = "retry"

// retryHelp is the part of connect's help about it.
const retryHelp = `With --retry a script outlives its ring. If the ring does not form, or a rank, a
host, a link or a device fails while it runs, each rank with --retry reports
that, leaves, and joins a ring of the same list again as soon as all are there;
then the whole script runs anew, from its first line, on all ranks. Start the
rank that was lost again, by hand or by a supervisor. The time counts from the
failure, or from the first of several between which no ring has held for as
long; then the last failure is the exit code. Ctrl-C ends it at once. What
another ring would not mend is not tried again: wrong data, an expect that does
not hold, ranks that differ, bad usage. A follower with --retry waits so long
for a leader that has ended, and a shell for its first ring.`

// retryPause is between a failure and the next attempt: time for the other ranks to hear
// of it, and for a person to read it.
const retryPause = time.Second

// retrying is InRing again and again, for so long after a ring has failed; 0 is once. do
// runs once if it is no script.
func retrying(ctx context.Context, s *session.Session, limit time.Duration, script bool, do func(context.Context) error) error {
	if limit == 0 {
		return InRing(ctx, s, do)
	}
	config, held, since := s.Config, false, time.Now()
	for {
		err := s.Join(ctx, max(limit-time.Since(since), s.Config.Duration("timeout")))
		joined := err == nil
		if joined {
			begun := time.Now()
			err = s.Leave(ctx, do(ctx), session.End)
			if !held || time.Since(begun) >= limit {
				held, since = true, time.Now()
			}
		}
		left := limit - time.Since(since)
		if ctx.Err() != nil || left <= 0 || exit.Code(err) != exit.Critical || joined && (!script || !mends(err)) {
			return err
		}
		failure.Report(s, "connect", failure.Again(err, left), exit.Code(err))
		s.Config, s.Results = config, nil
		if err := lines.Pause(ctx, retryPause); err != nil {
			return err
		}
		s.TakeBack()
	}
}

// mends tells whether a ring that failed so might do better the next time.
func mends(err error) bool {
	v, failed := errors.AsType[*ring.Verdict](err)
	if !failed {
		return false
	}
	switch v.Kind {
	case bootstrap.KindLost, bootstrap.KindSilent, bootstrap.KindStopped, bootstrap.KindIsolated, bootstrap.KindEdge,
		bootstrap.KindLeft, bootstrap.KindTimeout, bootstrap.KindCanceled: // at another rank
		return true
	case bootstrap.KindFailed:
		return v.Rank >= 0 // a device or a queue pair, not a script
	}
	return false
}
