package session

import (
	"context"
	"errors"
	"time"

	"ringcli/cli/exit"
	"ringcli/cli/tables"
	"ringcli/collective"
	"ringcli/configs/codes"
	"ringcli/ring"
	"ringcli/ring/bootstrap"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/trace"
	"ringcli/verbs"
	_ "ringcli/verbs/providers"
)

// Identity says who this process is: the list and the index, which must be given.
func (s *Session) Identity() (list string, index int, err error) {
	list, index = s.Config.String("list"), s.Config.Int("index")
	switch {
	case list == "":
		return "", 0, exit.Usagef("no server list: expected --list a,b,c or --list @FILE, the same on every node (or `ringcli local -n 4` for ranks on this machine)")
	case !s.Config.IsSet("index"):
		if err := s.Config.CheckForeign("index"); err != nil {
			return "", 0, err
		}
		return "", 0, exit.Usagef("no index: expected --index I, this node's place in the list, from 0")
	}
	return list, index, nil
}

// BringUpError is that of a ring that did not come up. Met says that its ranks had found each other
// over TCP.
type BringUpError struct {
	error
	Met bool
}

func (e *BringUpError) Unwrap() error { return e.error }

// Join brings the ring up and makes this process a member. patience is how long
// the other ranks may take to appear; 0 means --timeout.
func (s *Session) Join(ctx context.Context, patience time.Duration) error {
	list, index, err := s.Identity()
	if err != nil {
		return err
	}
	trace.SetRank(index)
	if _, places, err := s.Whole(); err == nil && len(places) > 0 && index == places[0] { // before anybody waits for it
		if _, _, err := tables.Of(s.Config); err != nil {
			return err
		}
	}
	defer s.Speak()()
	o, err := s.RingOptions()
	if err != nil {
		return err
	}
	o.Patience = patience
	if o.Inject != verbs.NoFaults {
		s.Place.SetInjected(o.Inject)
	}
	end := s.Progress.Clock("connecting, at most %s", max(o.Timeout, patience))
	if whole, places, err := s.Whole(); err == nil {
		left := make([]hosts.Node, len(places))
		for rank, place := range places {
			left[rank] = whole[place]
		}
		s.Ledger.Joined(index, 0, s.Launcher.HostsOf(left))
	}
	s.Ring, err = ring.Connect(ctx, []string{list}, index, o)
	end()
	if err != nil {
		return &BringUpError{s.Launcher.apart(err), errors.As(err, new(*ring.MetError))}
	}
	if s.Ring.Control().Diagnosing() {
		s.Member = &Member{Ring: s.Ring, Command: "connect", Injected: s.Place.Injected}
		if _, err := s.meet(ctx, s.Member); err != nil {
			return s.Leave(ctx, err, End)
		}
		s.Place.Led = s.Leads
		return nil
	}
	if err := s.Ready(ctx); err != nil {
		failed := s.Ring.Failed() // while others were still in the bring-up
		if err = s.Leave(ctx, err, End); failed {
			err = &BringUpError{err, true}
		}
		return err
	}
	// What both ends are like now is what a diagnosis has to compare with once a
	// peer cannot be asked any more. It is no loss if one does not answer.
	for _, side := range Sides(nil) {
		_, _, _ = s.Ring.Ends().Both(ctx, side.Edge())
	}
	trace.SetRank(s.Ring.Rank())
	s.Ledger.Joined(s.Ring.Rank(), s.Ring.Size(), s.Launcher.HostsOf(s.Ring.Nodes()))
	s.Place.joined(s)
	s.Does("")
	return nil
}

// OverError is that of a command in a ring that has failed before, which was
// reported then.
type OverError struct{ Err error }

func (e *OverError) Error() string { return e.Parts().String() }

// Parts has what ended the ring as the evidence.
func (e *OverError) Parts() codes.Parts {
	why := codes.Split(e.Err)
	return codes.Parts{Result: "the ring is over: it ended with: " + why.Result, Fix: "`reconnect` rebuilds it", Evidence: why.Evidence}
}

func (e *OverError) Unwrap() error { return e.Err }

// Ready makes this process a member of the ring that is open, which the other
// ranks do at the same time.
func (s *Session) Ready(ctx context.Context) error {
	switch {
	case s.Ring == nil:
		return exit.Codedf(codes.Order, "there is no ring: `connect` brings one up; step by step: open, init, exchange, rtr, rts")
	case s.Ring.Failed():
		return &OverError{s.Ring.Err()}
	}
	switch err := s.Ring.Usable(); {
	case errors.As(err, new(*ring.QueuePairError)):
		return err
	case err != nil:
		return exit.Usagef("%w", err)
	}
	if err := s.ByHand.MayOperate(ctx, s); err != nil || s.Member != nil {
		return err
	}
	if err := s.Ring.Ends().Compare(ctx, ring.Left, ring.Right); err != nil {
		return err
	}
	m := &Member{Ring: s.Ring, Command: "connect", Injected: s.Place.Injected}
	all, err := s.meet(ctx, m)
	o := collective.Options{}
	if s.Corrupt != nil {
		o.Corrupt = s.Corrupt(s.Ring.Rank())
	}
	if err == nil {
		var providers, injected []string
		for _, each := range all {
			providers, injected = append(providers, each.Providers...), append(injected, each.Inject)
			if each.CPU != nil {
				m.CPUs = append(m.CPUs, *each.CPU)
			}
		}
		s.Place.SetInjected(injected...)
		if len(m.CPUs) < len(all) {
			m.CPUs = nil
		}
		o.Table, m.Table, err = tables.Take(all[0].Table, providers, len(all))
	}
	if err == nil {
		m.Comm, err = collective.New(s.Ring, o)
	}
	if err == nil { // so that every plan is what is going to happen
		err = m.Comm.Agree(ctx)
	}
	if err == nil {
		m.Shown, err = m.Counters()
	}
	if err == nil {
		var run string
		if run, err = s.Ring.Control().RunID(ctx); err == nil {
			trace.SetRing(s.Ring.Size(), run)
		}
	}
	if err != nil {
		if m.Comm != nil {
			err = errors.Join(err, m.Comm.Close())
		}
		return err
	}
	s.Member = m
	return nil
}

// RingOptions are the settings of a ring of this process.
func (s *Session) RingOptions() (o ring.Options, err error) {
	o = ring.Options{Wait: verbs.WaitYield, Waits: s.Waits, History: &s.Place.History} // one rank in this process
	o.Without, o.Decision, o.Follows = s.Place.Without, s.Place.Decision, s.Follows
	o.Names, o.Diagnosing, o.ByHand = s.Launcher.names, s.Place.Diagnosing, s.Place.Diagnosing
	if err := s.Config.CheckForeign("num-channels", "buffer-size"); err != nil {
		return o, err
	}
	s.Config.Fill(&o)
	o.Token, _, err = s.Secrets.Token(s.Config)
	return o, err
}

// Leave closes the ring, if there is one, after what ended in err. The leader
// tells its followers what comes now. After a success the ranks of a script wait
// for each other first, so that none hears a goodbye while it still works; what
// failed here alone the others are told, and that a rank was interrupted. Followers
// wait for a leader that is interrupted no longer, nor does a person who leaves a shell
// end what the others do: they hear a goodbye. A script whose ring has failed has failed,
// also one that a shell reads from a pipe, but for ranks of shells that have left.
func (s *Session) Leave(ctx context.Context, err error, then Order) error {
	r, m := s.Ring, s.Member
	if r == nil {
		return err
	}
	defer s.Speak()()
	if typed := s.Shell != nil && s.Shell.Interactive(); err == nil && !typed { // while nothing ran that would have said so
		err = r.Failure().Settled(r.Err())
		if v, ok := errors.AsType[*bootstrap.Verdict](err); ok && s.Interactive && v.Kind == bootstrap.KindLeft {
			err = nil
		}
	}
	together := err == nil || exit.IsShared(err)
	if !together && (ctx.Err() == nil || !s.Leads && !s.Interactive) {
		r.Fail(exit.OrInterrupted(ctx, err)) // does nothing if the ring has failed
	}
	if together && s.Leads && !r.Failed() {
		err = errors.Join(err, s.Order(ctx, then))
	}
	// A shell of its own does not wait for the other ranks' people.
	if together && m != nil && (!s.Interactive || s.Leads) && !r.Failed() {
		err = errors.Join(err, m.Release(), r.Barrier(ctx))
	}
	s.Ring, s.Member, s.Leads = nil, nil, false
	if m != nil {
		err = errors.Join(err, m.Close())
	}
	return errors.Join(err, s.ByHand.Release(), r.Close())
}

// RanksHere is how many ranks will share this machine's memory, for checks
// before there is a ring; 1 if the list cannot be read, which joining reports.
func (s *Session) RanksHere() int {
	nodes, err := hosts.Parse(s.Config.String("list"), s.Config.Int("tcp-port"))
	index := s.Config.Int("index")
	if err != nil || index < 0 || index >= len(nodes) {
		return 1
	}
	return ranksOn(nodes, index)
}

// DropMember closes what computes over the ring, before the queue pairs under
// it change.
func (s *Session) DropMember() error {
	m := s.Member
	if s.Member = nil; m == nil {
		return nil
	}
	return m.Close()
}
