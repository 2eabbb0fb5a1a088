package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"ringcli/collective"
	"ringcli/configs"
	"ringcli/ring"
	"ringcli/trace"
	"ringcli/verbs"
	_ "ringcli/verbs/soft" // registers itself
)

// Member is this process's place in a ring that is ready.
type Member struct {
	ring  *ring.Ring
	comm  *collective.Comm
	fault *fault
	// checks counts the checked runs: each has inputs of its own, so that what
	// an earlier one left in a buffer is wrong in the next. All ranks run the
	// same operations, and so count alike.
	checks uint64
	// shown are the counters as they were shown last.
	shown map[string]uint64
}

// join brings the ring up and makes this process a member.
func (s *Session) join(ctx context.Context) (m *Member, err error) {
	c := s.Config
	if c.String("list") == "" {
		return nil, usageError("no server list: expected --list a,b,c or --list @FILE, the same on every node (or `ringcli local -n 4` for ranks on this machine)")
	}
	if !c.IsSet("index") {
		return nil, usageError("no index: expected --index I, this node's place in the list, from 0")
	}
	trace.SetRank(c.Int("index"))
	defer s.Progress.Clock("connecting, at most %s", c.Duration("timeout"))()
	r, err := ring.Connect(ctx, []string{c.String("list")}, c.Int("index"), ringOptions(c))
	if err != nil {
		return nil, err
	}
	m = &Member{ring: r, fault: s.fault}
	m.comm, err = collective.New(r, collective.Options{Timeout: c.Duration("timeout"), Corrupt: m.fault.injector(r.Rank())})
	if err == nil {
		m.shown, err = m.counters()
	}
	if err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return m, nil
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

// leave closes the ring. After a success it waits for the others first, so that
// none hears a goodbye while it still works; what failed here alone they are told.
func (m *Member) leave(ctx context.Context, err error) error {
	if err != nil && !isShared(err) && ctx.Err() == nil {
		m.ring.Fail(err) // does nothing if the ring has failed
	}
	if err == nil || isShared(err) {
		err = errors.Join(err, m.ring.Barrier(ctx))
	}
	return errors.Join(err, m.comm.Close(), m.ring.Close())
}

// shareOut gives every rank's value to every rank, over the control ring.
func shareOut[T any](ctx context.Context, m *Member, mine T) ([]T, error) {
	data, err := json.Marshal(mine)
	if err != nil {
		return nil, fmt.Errorf("share a %T: %w", mine, err)
	}
	parts, err := m.ring.Gather(ctx, data)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(parts))
	for rank, part := range parts {
		if err := json.Unmarshal(part, &all[rank]); err != nil {
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
		return errors.Join(mine, err)
	}
	var texts []string
	code := ExitOK
	for rank, o := range all {
		if o.Code != ExitOK {
			code = worse(code, o.Code)
			texts = append(texts, fmt.Sprintf("rank %d: %s", rank, o.Error))
		}
	}
	if code == ExitOK {
		return nil
	}
	return sharedError(code, "%s", strings.Join(texts, "; "))
}

// ranksHere is how many ranks of the ring share this machine's memory, as far
// as the server list tells.
func (m *Member) ranksHere() int { return ranksOn(m.ring.Nodes(), m.ring.Rank()) }
