package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"ringcli/collective"
	"ringcli/configs"
	"ringcli/ring"
	"ringcli/trace"
	"ringcli/verbs"
	_ "ringcli/verbs/providers"
)

// Member is this process's place in a ring that is ready.
type Member struct {
	ring  *ring.Ring
	comm  *collective.Comm
	fault *fault
	// command is what runs: the name of a command of a line.
	command string
	// checks counts the checked runs: each has inputs of its own, so that what
	// an earlier one left in a buffer is wrong in the next. All ranks run the
	// same operations, and so count alike.
	checks uint64
	// shown are the counters as they were shown last.
	shown map[string]uint64
	// table is the table in force.
	table TableStatus
}

// place says who this process is: the list and the index, which must be given.
func (s *Session) place() (list string, index int, err error) {
	list, index = s.Config.String("list"), s.Config.Int("index")
	switch {
	case list == "":
		return "", 0, usageError("no server list: expected --list a,b,c or --list @FILE, the same on every node (or `ringcli local -n 4` for ranks on this machine)")
	case !s.Config.IsSet("index"):
		return "", 0, usageError("no index: expected --index I, this node's place in the list, from 0")
	}
	return list, index, nil
}

// join brings the ring up and makes this process a member. patience is how long
// the other ranks may take to appear; 0 means --timeout.
func (s *Session) join(ctx context.Context, patience time.Duration) error {
	list, index, err := s.place()
	if err != nil {
		return err
	}
	trace.SetRank(index)
	if index == 0 { // before anybody waits for it
		if _, _, err := s.tables(); err != nil {
			return err
		}
	}
	o := ringOptions(s.Config)
	o.Patience = patience
	end := s.Progress.Clock("connecting, at most %s", max(o.Timeout, patience))
	s.ring, err = ring.Connect(ctx, []string{list}, index, o)
	end()
	if err != nil {
		return err
	}
	if err := s.ready(ctx); err != nil {
		return s.leave(ctx, err, orderEnd)
	}
	// What both ends are like now is what a diagnosis has to compare with once a
	// peer cannot be asked any more. It is no loss if one does not answer.
	for _, side := range sidesOf(nil) {
		_, _, _ = s.ring.Ends(ctx, side)
	}
	return nil
}

// overError is that of a command in a ring that has failed before, which was
// reported then.
type overError struct{ err error }

func (e *overError) Error() string {
	return "the ring is over: `connect` brings up a new one; it ended with: " + e.err.Error()
}
func (e *overError) Unwrap() error { return e.err }

// ready makes this process a member of the ring that is open, which the other
// ranks do at the same time.
func (s *Session) ready(ctx context.Context) error {
	switch {
	case s.ring == nil:
		return usageError("there is no ring: `connect` brings one up; step by step: open, init, exchange, rtr, rts")
	case s.ring.Failed():
		return &overError{s.ring.Err()}
	case s.ring.Usable() != nil:
		return usageError("%w", s.ring.Usable())
	}
	if err := s.mayOperate(ctx); err != nil || s.member != nil {
		return err
	}
	m := &Member{ring: s.ring, fault: s.fault, command: "connect"}
	all, err := s.meet(ctx, m)
	o := collective.Options{Timeout: s.Config.Duration("timeout"), Corrupt: m.fault.injector(s.ring.Rank())}
	if err == nil {
		o.Table, m.table, err = takeTable(all)
	}
	if err == nil {
		m.comm, err = collective.New(s.ring, o)
	}
	if err == nil { // so that every plan is what is going to happen
		err = m.comm.Agree(ctx)
	}
	if err == nil {
		m.shown, err = m.counters()
	}
	if err == nil {
		var run string
		if run, err = s.ring.RunID(ctx); err == nil {
			trace.SetRun(run)
			trace.SetSize(s.ring.Size())
		}
	}
	if err != nil {
		if m.comm != nil {
			err = errors.Join(err, m.comm.Close())
		}
		return err
	}
	s.member = m
	return nil
}

func ringOptions(c *configs.Config) ring.Options {
	o := ring.Options{
		Device: c.String("device"), Port: c.Int("port"), MTU: c.Int("mtu"), SL: c.Int("sl"), TrafficClass: c.Int("traffic-class"),
		QPTimeout: new(c.Int("qp-timeout")), RetryCnt: new(c.Int("retry-cnt")), RNRRetry: new(c.Int("rnr-retry")),
		MinRNRTimer: new(c.Int("min-rnr-timer")), Timeout: c.Duration("timeout"), TCPPort: c.Int("tcp-port"),
		Slots: c.Int("slots"), SlotSize: int(c.Size("slot-size")),
		Wait: verbs.WaitYield, // one rank in this process
	}
	if index := c.Int("gid-index"); index >= 0 {
		o.GIDIndex = &index
	}
	return o
}

// leave closes the ring, if there is one, after what ended in err. The leader
// tells its followers what comes now. After a success the ranks of a script wait
// for each other first, so that none hears a goodbye while it still works; what
// failed here alone the others are told.
func (s *Session) leave(ctx context.Context, err error, then string) error {
	r, m := s.ring, s.member
	if r == nil {
		return err
	}
	together := err == nil || isShared(err)
	if !together && ctx.Err() == nil {
		r.Fail(err) // does nothing if the ring has failed
	}
	if together && s.leads && !r.Failed() {
		err = errors.Join(err, s.order(ctx, order{Do: then}))
	}
	// A shell of its own does not wait for the other ranks' people.
	if together && m != nil && (!s.interactive || s.leads) && !r.Failed() {
		err = errors.Join(err, r.Barrier(ctx))
	}
	s.ring, s.member, s.leads = nil, nil, false
	if m != nil {
		err = errors.Join(err, m.comm.Close())
	}
	return errors.Join(err, s.hand.release(), r.Close())
}

// shared is a rank's value on the control ring, with what it belongs to: ranks
// that run different commands are told so.
type shared[T any] struct {
	Command string `json:"command"`
	What    string `json:"what"`
	Value   T      `json:"value"`
}

// shareOut gives every rank's value to every rank, over the control ring.
func shareOut[T any](ctx context.Context, m *Member, mine T) ([]T, error) {
	own := shared[T]{m.command, fmt.Sprintf("%T", mine), mine}
	data, err := json.Marshal(own)
	if err != nil {
		return nil, fmt.Errorf("share a %T: %w", mine, err)
	}
	parts, err := m.ring.Gather(ctx, data)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(parts))
	for rank, part := range parts {
		var its shared[json.RawMessage]
		err := json.Unmarshal(part, &its)
		if err == nil && (its.Command != own.Command || its.What != own.What) {
			return nil, sharedError(ExitUsage, "rank %d runs %q and rank %d %q (or one has given up before the other began): run the same command on all ranks, again",
				m.ring.Rank(), own.Command, rank, its.Command)
		}
		if err == nil {
			err = json.Unmarshal(its.Value, &all[rank])
		}
		if err != nil {
			return nil, fmt.Errorf("rank %d's part of a %T: %w; do all ranks run the same version?", rank, mine, err)
		}
	}
	return all, nil
}

// agree fails on every rank if it fails on one: what a rank cannot do, such as
// allocate, the others must not begin.
func (m *Member) agree(ctx context.Context, mine error) error {
	type outcome struct {
		Error string `json:"error,omitempty"`
		Code  int    `json:"code,omitempty"`
	}
	o := outcome{}
	if mine != nil {
		o = outcome{mine.Error(), ExitCode(mine)}
	}
	all, err := shareOut(ctx, m, o)
	if err != nil {
		if mine != nil && m.ring.Failed() {
			return mine // the verdict that ended the gather, too
		}
		return errors.Join(mine, err)
	}
	var texts []string
	ranks := map[string][]string{} // by text
	code := ExitOK
	for rank, o := range all {
		if o.Code == ExitOK {
			continue
		}
		code = worse(code, o.Code)
		if ranks[o.Error] == nil {
			texts = append(texts, o.Error)
		}
		ranks[o.Error] = append(ranks[o.Error], strconv.Itoa(rank))
	}
	if code == ExitOK {
		return nil
	}
	for i, text := range texts {
		who := "rank "
		if len(ranks[text]) > 1 {
			who = "ranks "
		}
		texts[i] = who + strings.Join(ranks[text], ", ") + ": " + text
	}
	return sharedError(code, "%s", strings.Join(texts, "; "))
}

// ranksHere is how many ranks of the ring share this machine's memory, as far
// as the server list tells.
func (m *Member) ranksHere() int { return ranksOn(m.ring.Nodes(), m.ring.Rank()) }
