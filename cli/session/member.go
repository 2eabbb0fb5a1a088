package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"

	"ringcli/cli/exit"
	"ringcli/cli/tables"
	"ringcli/collective"
	"ringcli/configs"
	"ringcli/ring"
	"ringcli/ring/bootstrap"
	"ringcli/trace"
	"ringcli/verbs"
	_ "ringcli/verbs/providers"
)

// Member is this process's place in a ring that is ready.
type Member struct {
	Ring  *ring.Ring
	Comm  *collective.Comm
	Fault *Fault
	// Command is what runs: the name of a command of a line.
	Command string
	// Checks counts the checked runs: each has inputs of its own, so that what
	// an earlier one left in a buffer is wrong in the next. All ranks run the
	// same operations, and so count alike.
	Checks uint64
	// Shown are the counters as they were shown last.
	Shown map[string]uint64
	// Table is the table in force.
	Table tables.TableStatus
}

// Identity says who this process is: the list and the index, which must be given.
func (s *Session) Identity() (list string, index int, err error) {
	list, index = s.Config.String("list"), s.Config.Int("index")
	switch {
	case list == "":
		return "", 0, exit.Usagef("no server list: expected --list a,b,c or --list @FILE, the same on every node (or `ringcli local -n 4` for ranks on this machine)")
	case !s.Config.IsSet("index"):
		return "", 0, exit.Usagef("no index: expected --index I, this node's place in the list, from 0")
	}
	return list, index, nil
}

// Join brings the ring up and makes this process a member. patience is how long
// the other ranks may take to appear; 0 means --timeout.
func (s *Session) Join(ctx context.Context, patience time.Duration) error {
	list, index, err := s.Identity()
	if err != nil {
		return err
	}
	trace.SetRank(index)
	if index == 0 { // before anybody waits for it
		if _, _, err := tables.Of(s.Config); err != nil {
			return err
		}
	}
	o := RingOptions(s.Config)
	o.Patience = patience
	end := s.Progress.Clock("connecting, at most %s", max(o.Timeout, patience))
	s.Ring, err = ring.Connect(ctx, []string{list}, index, o)
	end()
	if err != nil {
		return err
	}
	if err := s.Ready(ctx); err != nil {
		return s.Leave(ctx, err, OrderEnd)
	}
	// What both ends are like now is what a diagnosis has to compare with once a
	// peer cannot be asked any more. It is no loss if one does not answer.
	for _, side := range Sides(nil) {
		_, _, _ = s.Ring.Ends(ctx, side.Edge())
	}
	return nil
}

// OverError is that of a command in a ring that has failed before, which was
// reported then.
type OverError struct{ Err error }

func (e *OverError) Error() string {
	return "the ring is over: `connect` brings up a new one; it ended with: " + e.Err.Error()
}
func (e *OverError) Unwrap() error { return e.Err }

// Ready makes this process a member of the ring that is open, which the other
// ranks do at the same time.
func (s *Session) Ready(ctx context.Context) error {
	switch {
	case s.Ring == nil:
		return exit.Usagef("there is no ring: `connect` brings one up; step by step: open, init, exchange, rtr, rts")
	case s.Ring.Failed():
		return &OverError{s.Ring.Err()}
	case s.Ring.Usable() != nil:
		return exit.Usagef("%w", s.Ring.Usable())
	}
	if err := s.ByHand.MayOperate(ctx, s); err != nil || s.Member != nil {
		return err
	}
	m := &Member{Ring: s.Ring, Fault: s.Fault, Command: "connect"}
	all, err := s.meet(ctx, m)
	o := collective.Options{Timeout: s.Config.Duration("timeout"), Corrupt: m.Fault.injector(s.Ring.Rank())}
	if err == nil {
		var providers []string
		for _, each := range all {
			providers = append(providers, each.Providers...)
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
		if run, err = s.Ring.RunID(ctx); err == nil {
			trace.SetRun(run)
			trace.SetSize(s.Ring.Size())
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

// RingOptions are the settings of a ring.
func RingOptions(c *configs.Config) ring.Options {
	o := ring.Options{Wait: verbs.WaitYield} // one rank in this process
	c.Fill(&o)
	return o
}

// Leave closes the ring, if there is one, after what ended in err. The leader
// tells its followers what comes now. After a success the ranks of a script wait
// for each other first, so that none hears a goodbye while it still works; what
// failed here alone the others are told.
func (s *Session) Leave(ctx context.Context, err error, then string) error {
	r, m := s.Ring, s.Member
	if r == nil {
		return err
	}
	together := err == nil || exit.IsShared(err)
	if !together && ctx.Err() == nil {
		r.Fail(err) // does nothing if the ring has failed
	}
	if together && s.Leads && !r.Failed() {
		err = errors.Join(err, s.Order(ctx, Order{Do: then}))
	}
	// A shell of its own does not wait for the other ranks' people.
	if together && m != nil && (!s.Interactive || s.Leads) && !r.Failed() {
		err = errors.Join(err, r.Barrier(ctx))
	}
	s.Ring, s.Member, s.Leads = nil, nil, false
	if m != nil {
		err = errors.Join(err, m.Comm.Close())
	}
	return errors.Join(err, s.ByHand.Release(), r.Close())
}

// shared is a rank's value on the control ring, with what it belongs to: ranks
// that run different commands are told so.
type shared[T any] struct {
	Command string `json:"command"`
	What    string `json:"what"`
	Value   T      `json:"value"`
}

// Share gives every rank's value to every rank, over the control ring.
func Share[T any](ctx context.Context, m *Member, mine T) ([]T, error) {
	own := shared[T]{m.Command, fmt.Sprintf("%T", mine), mine}
	data, err := json.Marshal(own)
	if err != nil {
		return nil, fmt.Errorf("share a %T: %w", mine, err)
	}
	parts, err := m.Ring.Gather(ctx, data)
	if err != nil {
		return nil, err
	}
	all := make([]T, len(parts))
	for rank, part := range parts {
		var its shared[json.RawMessage]
		err := json.Unmarshal(part, &its)
		if err == nil && (its.Command != own.Command || its.What != own.What) {
			return nil, exit.Sharedf(exit.Usage, "rank %d runs %q and rank %d %q (or one has given up before the other began): run the same command on all ranks, again",
				m.Ring.Rank(), own.Command, rank, its.Command)
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

// Agree fails on every rank if it fails on one: what a rank cannot do, such as
// allocate, the others must not begin.
func (m *Member) Agree(ctx context.Context, mine error) error {
	type outcome struct {
		Error string `json:"error,omitempty"`
		Code  int    `json:"code,omitempty"`
	}
	o := outcome{}
	if mine != nil {
		o = outcome{mine.Error(), exit.Code(mine)}
	}
	all, err := Share(ctx, m, o)
	if err != nil {
		if mine != nil && m.Ring.Failed() {
			return mine // the verdict that ended the gather, too
		}
		return errors.Join(mine, err)
	}
	var texts []string
	ranks := map[string][]string{} // by text
	code := exit.OK
	for rank, o := range all {
		if o.Code == exit.OK {
			continue
		}
		code = exit.Worse(code, o.Code)
		if ranks[o.Error] == nil {
			texts = append(texts, o.Error)
		}
		ranks[o.Error] = append(ranks[o.Error], strconv.Itoa(rank))
	}
	if code == exit.OK {
		return nil
	}
	for i, text := range texts {
		who := "rank "
		if len(ranks[text]) > 1 {
			who = "ranks "
		}
		texts[i] = who + strings.Join(ranks[text], ", ") + ": " + text
	}
	return exit.Sharedf(code, "%s", strings.Join(texts, "; "))
}

// RanksHere is how many ranks of the ring share this machine's memory, as far
// as the server list tells.
func (m *Member) RanksHere() int { return ranksOn(m.Ring.Nodes(), m.Ring.Rank()) }

// FollowerPatience is how long a follower waits for a ring to come up: its
// leader may be a person who starts the others first, or thinks about what went
// wrong.
const FollowerPatience = 24 * time.Hour

// Order is what a leader tells its followers, over the control ring.
type Order struct {
	Do    string   `json:"do"`
	Words []string `json:"words,omitempty"` // of OrderRun: a command with all that it is run with
}

// The orders.
const (
	OrderRun   = "run"
	OrderAgain = "again" // leave this ring and join the next
	OrderEnd   = "end"
)

// introduction is what a rank says of itself to the others, once.
type introduction struct {
	Follows   bool                 `json:"follows"`
	Providers []string             `json:"providers"`       // of its edges
	Table     *tables.Announcement `json:"table,omitempty"` // rank 0's
}

// meet finds out which ranks follow. Either all but rank 0 do, which then leads
// them, or none does.
func (s *Session) meet(ctx context.Context, m *Member) ([]introduction, error) {
	all, err := Share(ctx, m, introduction{Follows: s.Follows, Providers: tables.Providers(m.Ring), Table: tables.Announce(s.Config, m.Ring)})
	if err != nil {
		return nil, err
	}
	if all[0].Follows {
		return nil, exit.Sharedf(exit.Usage, "rank 0 follows: expected it to lead; --follow is for the other ranks")
	}
	followers := 0
	for _, i := range all {
		if i.Follows {
			followers++
		}
	}
	if followers > 0 && followers < len(all)-1 {
		return nil, exit.Sharedf(exit.Usage, "%d of %d ranks follow: expected all but rank 0, or none", followers, len(all))
	}
	s.Leads = followers > 0 && m.Ring.Rank() == 0
	return all, nil
}

// Order sends an order to all followers.
func (s *Session) Order(ctx context.Context, o Order) error {
	data, err := json.Marshal(o)
	if err != nil {
		return fmt.Errorf("order %q: %w", o.Do, err)
	}
	_, err = s.Ring.Broadcast(ctx, data)
	return err
}

// Counters returns the counters of the devices in use, by provider, as
// "soft/name", and the collectives' as "collective/name".
func (m *Member) Counters() (map[string]uint64, error) {
	all := make(map[string]uint64)
	for _, d := range m.Ring.Devices() {
		list, err := d.Counters()
		if err != nil {
			return nil, err
		}
		for _, c := range list {
			all[d.Provider()+"/"+c.Name] += c.Value
		}
	}
	if m.Comm == nil {
		return all, nil
	}
	stats := reflect.ValueOf(m.Comm.Stats())
	for i := range stats.NumField() {
		all[CollectiveSource+"/"+snakeCase(stats.Type().Field(i).Name)] = stats.Field(i).Uint()
	}
	return all, nil
}

// CollectiveSource is where a counter is from that no device has counted.
const CollectiveSource = "collective"

// snakeCase writes a Go name as counters are written: CopiedAllGather is
// copied_all_gather, RTS is rts.
func snakeCase(name string) string {
	runes := []rune(name)
	var b strings.Builder
	for i, r := range runes {
		begins := i > 0 && unicode.IsUpper(r) && (unicode.IsLower(runes[i-1]) || i+1 < len(runes) && unicode.IsLower(runes[i+1]))
		if begins {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// RingSettings are the settings that connecting takes.
var RingSettings = Without(configs.Names(), ProcessSettings...)

// Without returns the names but for some.
func Without(names []string, some ...string) []string {
	return slices.DeleteFunc(slices.Clone(names), func(name string) bool { return slices.Contains(some, name) })
}

// RanksHere is how many ranks will share this machine's memory, for checks
// before there is a ring; 1 if the list cannot be read, which joining reports.
func (s *Session) RanksHere() int {
	nodes, err := bootstrap.ParseList(s.Config.String("list"), s.Config.Int("tcp-port"))
	index := s.Config.Int("index")
	if err != nil || index < 0 || index >= len(nodes) {
		return 1
	}
	return ranksOn(nodes, index)
}

func ranksOn(nodes []bootstrap.Node, index int) int {
	here := 0
	for _, n := range nodes {
		if n.Host == nodes[index].Host || isLoopback(n.Host) && isLoopback(nodes[index].Host) {
			here++
		}
	}
	return here
}

func isLoopback(host string) bool {
	return slices.Contains([]string{"localhost", "::1"}, host) || len(host) > 4 && host[:4] == "127."
}

// ProcessSettings are the settings that are flags of every process command.
var ProcessSettings = []string{"output", "trace", "trace-format"}
