package bootstrap

import (
	"context"
	"time"

	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/bootstrap/kernel"
	"ringcli/ring/bootstrap/verdict"
)

// Vigil watches the process of rank 0 while no ring does: between two rings, and before the
// first. One goroutine at a time uses it.
type Vigil struct {
	prober *prober  // which asks, also when its Control is closed
	who    identity // zero before the ranks have met: the process may not have been started
	looked time.Time
	amiss  bool          // at the last look
	mute   time.Duration // so long its host has taken calls that it did not answer
	absent time.Duration // so long nobody has answered at its address
}

// absence is how long nobody may answer at the address of a process elsewhere: between two
// rings a person may think.
const absence = 30 * time.Second

// mostBetween bounds the time that counts between two looks: this process may have been
// stopped, together with the one that it watches.
const mostBetween = 2 * time.Second

// Missing looks at the process, and returns how it is missing: it has ended, it is stopped
// for longer than Config.Silence, or its host is gone. It returns nil while the process lives,
// however long that is idle. It takes at most a second. nil watches nothing.
func (v *Vigil) Missing(ctx context.Context) *Verdict {
	if v == nil {
		return nil
	}
	own, near, now := v.prober.own, v.who.near(&v.prober.own.self), time.Now()
	gone, stopped := false, false
	if near {
		gone, stopped = v.shown()
	}
	p := PeerReport{Mute: true, Took: true}
	if !gone && !stopped {
		p = v.prober.probeRank(ctx, 0)
	}
	if ctx.Err() != nil || p.unasked {
		return nil
	}
	v.count(p, now)
	bound := own.pace.silence
	if !stopped && (near || v.who.PID == 0) { // a process that waits for a CPU is slow
		bound *= slowness
	}
	switch {
	case gone:
		return own.verdict(KindLost, 0, "%s has ended: process %d of its host is gone", own.name(0), v.who.PID)
	case stopped && v.mute > bound:
		return own.verdict(KindStopped, 0, "%s is stopped: its host has shown process %d so for %s: %s", own.name(0), v.who.PID, calls.Ago(v.mute), verdict.CureStopped)
	case v.mute > bound:
		return own.suspected(KindSilent, 0, "%s stands still: its host takes calls, and its process has answered none for %s: %s", own.name(0), calls.Ago(v.mute), verdict.CureStopped)
	case v.absent > absence && !near && v.who.PID != 0:
		return own.suspected(KindLost, 0, "%s has ended, or its host is gone: nobody has answered there for %s (%s)", own.name(0), calls.Ago(v.absent), p.State)
	}
	return nil
}

// shown is what the host that both processes are on shows of the watched one.
func (v *Vigil) shown() (gone, stopped bool) {
	s, ok := kernel.Read(v.who.PID)
	gone = !ok || v.who.Process.IsGone(s)
	return gone, !gone && s.IsStopped()
}

// count adds the time since the last look to what the process is missing for.
func (v *Vigil) count(p PeerReport, now time.Time) {
	passed := min(now.Sub(v.looked), mostBetween)
	if !v.amiss {
		passed = 0
	}
	v.looked, v.amiss = now, !p.Up
	switch {
	case p.Up:
		v.mute, v.absent = 0, 0
	case p.Mute && p.Took:
		v.mute, v.absent = v.mute+passed, v.absent+passed
	case p.Mute: // the queue of its calls may be full
		v.absent += passed
	default: // its host says that nobody listens there
		v.mute, v.absent = 0, v.absent+passed
	}
}
