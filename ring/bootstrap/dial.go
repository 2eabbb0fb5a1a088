package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"time"

	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/oob"
	"ringcli/trace"
)

// dialler calls the right neighbour.
type dialler struct {
	own        *node
	life       *lifetime
	neighbours *neighbours
	outcome    *outcome
	changes    *changes
	prober     *prober
	tally      *tally
	fail       func(*Verdict) // as Control.Fail
	once       sync.Once
}

// start dials from now on. It may be called again.
func (d *dialler) start() { d.once.Do(func() { d.life.start(d.dial) }) }

// dial keeps the right connection up until it is used: the neighbour may start late,
// and may be restarted.
func (d *dialler) dial() {
	pause, resolved := dialPauseMin, time.Now()
	for {
		if d.neighbours.at(right) != nil {
			pause = dialPauseMin
		}
		over := false
		if !d.changes.until(d.life.ctx, func() bool {
			p := d.outcome.phase()
			over = p.sealed || p.over()
			return over || d.neighbours.at(right) == nil
		}) || over {
			return
		}
		if err := d.call(); err != nil {
			d.tally.noteProblem(err)
			if now := time.Now(); now.Sub(resolved) > resolvePause {
				d.resolveAgain(d.own.neighbour(right))
				resolved = now
			}
			d.askLeader()
			select {
			case <-time.After(pause):
			case <-d.life.ctx.Done():
				return
			}
			pause = min(2*pause, dialPauseMax)
		}
	}
}

const (
	// resolvePause is how often the name of a neighbour that is not reached is looked up: name
	// servers give the records of pods for 5 s or longer.
	resolvePause = 2 * time.Second
	// resolveTimeout is how long that may take from the calls.
	resolveTimeout = time.Second
)

// resolveAgain looks for another address of a rank that is not reached: a pod that was started
// anew has one.
func (d *dialler) resolveAgain(rank int) {
	host, before := d.own.cfg.List[rank].Host, d.own.at(rank)
	if _, err := netip.ParseAddr(host); err == nil {
		return
	}
	ctx, cancel := context.WithTimeout(d.life.ctx, resolveTimeout)
	defer cancel()
	found, err := hosts.Lookup(ctx, host)
	if err != nil || slices.Contains(found, before.Addr()) {
		return // no news; the next try asks again
	}
	trace.Warn(trace.Bootstrap, fmt.Sprintf("%s has the address %s now; at %s, its address before, it was not reached", d.own.name(rank), found[0], before.Addr()))
	addrs := slices.Clone(*d.own.addrs.Load())
	for i, n := range d.own.cfg.List {
		if n.Host == host {
			addrs[i] = netip.AddrPortFrom(found[0], uint16(n.Port))
		}
	}
	d.own.setAddrs(addrs)
}

// call dials the right neighbour once and says hello.
func (d *dialler) call() error {
	peer := d.own.neighbour(right)
	conn, err := d.own.cfg.Dial(d.life.ctx, "tcp", d.own.at(peer).String())
	if err != nil {
		return err
	}
	raw := conn
	conn, f, err := d.prober.ask(d.life.ctx, conn, TypeHello, peer, d.own.rank, d.own.hello())
	if err != nil {
		_ = raw.Close()
		// Where this rank has a token, that is said by who has not shown one: anybody.
		if trouble, ok := errors.AsType[*oob.TokenError](err); ok && d.own.cfg.Token == nil {
			v := d.own.verdict(KindMismatch, peer, "%v", err).Coded(trouble.FailureCode())
			d.fail(v)
			return v
		}
		return err
	}
	switch f.Type {
	case TypeWelcome:
		who, err := oob.Decode[identity](f)
		if err != nil {
			_ = conn.Close()
			return err
		}
		d.neighbours.mu.Lock()
		defer d.neighbours.mu.Unlock()
		d.neighbours.add(right, conn, who)
		return nil
	case TypeReject:
		_ = conn.Close()
		r, err := oob.Decode[rejection](f)
		if err != nil {
			return err
		}
		if r.Retry {
			return errors.New(r.Text)
		}
		v := r.Verdict
		v.Group = r.Group
		if r.Itself {
			// This node was given the index of another, or nearly so: if the
			// other is there, both are to know.
			if twin := d.prober.tellTwin(d.life.ctx); twin != nil {
				v = *twin
			}
		}
		v.Told = v.By != d.own.rank
		d.fail(&v)
		return &v
	default:
		_ = conn.Close()
		return fmt.Errorf("%s answered hello with a %q frame", d.own.name(peer), f.Type)
	}
}

// askLeader asks rank 0, whose ring this rank was in and waits for again, whether it goes
// on without others. Who is left out is called by nobody, and the neighbour that it calls
// may be dead.
func (d *dialler) askLeader() {
	if !d.own.cfg.Follows || d.own.cfg.History.Last() == 0 || d.own.neighbour(right) == 0 {
		return
	}
	ctx, cancel := awake(d.life.ctx, probeTimeout)
	defer cancel()
	s, err := d.prober.probe(ctx, 0, d.own.at(0), probe{Group: &d.own.group})
	if err == nil && s.Rank == 0 && s.Group != nil && s.Group.Supersedes(&d.own.group) {
		d.outcome.regroup(s.Group)
	}
}
