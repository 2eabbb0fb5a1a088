package session

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"ringcli/cli/exit"
	"ringcli/cli/tables"
	"ringcli/collective"
	"ringcli/collective/backend"
	gpus "ringcli/collective/gpu"
	"ringcli/configs/codes"
	"ringcli/ring"
	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/diagnose"
	"ringcli/verbs/cpu"
	"ringcli/verbs/gpu"
)

// Member is this process's place in a ring that is ready.
type Member struct {
	Ring *ring.Ring
	Comm *collective.Comm
	// Devices are the ranks' GPUs, by what was asked for.
	Devices map[string]*gpus.Team
	// Backends are the vendors' that were asked for, by their names and where.
	Backends map[string]backend.Backend
	// Command is what runs: the name of a command of a line.
	Command string
	// Checks counts the checked runs: each has inputs of its own, so that what
	// an earlier one left in a buffer is wrong in the next. All ranks run the
	// same operations, and so count alike.
	Checks uint64
	// Shown are the counters as they were shown last.
	Shown map[string]uint64
	// CPUs are those that the ranks poll on; empty where it is not settled for all.
	CPUs []int
	// Injected is what is done on purpose to the ring; "" if nothing is.
	Injected func() string
	// Carried is the most in GB/s that a core of this host was seen to copy, by how many bytes at
	// a time; of 0 bytes, what it was seen to send and receive over UDP.
	Carried map[int]float64
	// Table is the table in force.
	Table tables.TableStatus
}

// Team is the ranks with their GPUs, made when it is first asked for: by their places or, where a
// back end has chosen them, whose name is by, as it has. All ranks call it, and it fails on all alike.
func (m *Member) Team(ctx context.Context, place gpu.Place, by string) (*gpus.Team, error) {
	key := place.String()
	if by != "" {
		key = by // the same on all ranks, as the place need not be
	}
	if t := m.Devices[key]; t != nil {
		return t, nil
	}
	t, err := gpus.Join(ctx, m.Ring, place)
	if err != nil {
		return nil, err
	}
	if m.Devices == nil {
		m.Devices = map[string]*gpus.Team{}
	}
	m.Devices[key] = t
	return t, nil
}

// Backend is a vendor's back end on the GPU of a place, or if that is of the host, on the one of
// this rank's number among those of its host. It is made when it is first asked for. All ranks
// call it alike, and it fails on all alike.
func (m *Member) Backend(ctx context.Context, f *backend.Factory, place gpu.Place) (backend.Backend, error) {
	key := f.Name() + " on " + place.String() // the same on all ranks, as the device need not be
	if b := m.Backends[key]; b != nil {
		return b, b.Err()
	}
	device := place.Index
	if place.Kind == gpu.Host {
		device = m.Comm.Hosts().Place(m.Comm.Rank())
	}
	gather := func(ctx context.Context, mine []byte) ([][]byte, error) {
		return m.Ring.Gather(ctx, ring.Purpose{What: "gather", Do: "make a communicator of " + f.Name()}, mine)
	}
	b, err := f.Create(ctx, backend.World{Rank: m.Comm.Rank(), Size: m.Comm.Size(), Device: device, Gather: gather, Comm: m.Comm})
	if err != nil {
		return nil, err
	}
	if m.Backends == nil {
		m.Backends = map[string]backend.Backend{}
	}
	m.Backends[key] = b
	return b, nil
}

// Release lets go of the other ranks' GPUs, before the ranks meet for the last time.
func (m *Member) Release() (err error) {
	for _, t := range m.Devices {
		err = errors.Join(err, t.Release())
	}
	return err
}

// Close gives back what computes over the ring.
func (m *Member) Close() error {
	err := errors.Join(closeAll(m.Backends), closeAll(m.Devices))
	if m.Comm != nil { // a ring for a diagnosis has none
		err = errors.Join(err, m.Comm.Close())
	}
	m.Backends, m.Devices = nil, nil
	return err
}

// closeAll closes in the order of the keys, which is that of the other ranks: some wait for their like
// there.
func closeAll[T io.Closer](all map[string]T) (err error) {
	for _, key := range slices.Sorted(maps.Keys(all)) {
		err = errors.Join(err, all[key].Close())
	}
	return err
}

// shared is a rank's value on the control ring, with what it belongs to: ranks
// that run different commands are told so.
type shared[T any] struct {
	Command string `json:"command"`
	What    string `json:"what"`
	Value   T      `json:"value"`
}

// CommandsError says that ranks run different commands.
type CommandsError struct{ Calls []ring.Called }

// FailureCode is that of calls that differ.
func (e *CommandsError) FailureCode() codes.Code { return codes.Calls }

func (e *CommandsError) Error() string {
	text := "ranks are at different places in one command"
	if len(e.Calls) > 0 {
		text = calls.Tell("run", e.Calls)
	}
	return text + " (or one has given up before the other began): run the same command on all ranks, again"
}

// Share gives every rank's value to every rank, over the control ring.
func Share[T any](ctx context.Context, m *Member, mine T) ([]T, error) {
	own := shared[T]{m.Command, fmt.Sprintf("%T", mine), mine}
	data, err := json.Marshal(own)
	if err != nil {
		return nil, fmt.Errorf("share a %T: %w", mine, err)
	}
	purpose := ring.Purpose{What: "gather", Do: "run " + m.Command}
	if m.Comm == nil {
		purpose.Do = ring.BeReady
	}
	parts, err := m.Ring.Gather(ctx, purpose, data)
	if err != nil {
		return nil, err
	}
	all, called := make([]T, len(parts)), make([]ring.Called, len(parts))
	values := make([]json.RawMessage, len(parts))
	same, sameCommand := true, true
	for rank, part := range parts {
		var its shared[json.RawMessage]
		if err := json.Unmarshal(part, &its); err != nil {
			return nil, fmt.Errorf("rank %d's part of a %T: %w; do all ranks run the same version?", rank, mine, err)
		}
		sameCommand = sameCommand && its.Command == own.Command
		same = same && sameCommand && its.What == own.What
		called[rank], values[rank] = ring.Called{Call: its.Command}, its.Value
	}
	if !same {
		e := &CommandsError{}
		if !sameCommand { // else all have one, and are at different places in it
			e.Calls = calls.Tabulate(called)
		}
		return nil, exit.Sharedf(exit.Usage, "%w", e)
	}
	for rank, value := range values {
		if err := json.Unmarshal(value, &all[rank]); err != nil {
			return nil, fmt.Errorf("rank %d's part of a %T: %w; do all ranks run the same version?", rank, mine, err)
		}
	}
	return all, nil
}

// Agree fails on every rank if it fails on one: what a rank cannot do, such as
// allocate, the others must not begin.
func (m *Member) Agree(ctx context.Context, mine error) error {
	type outcome struct {
		Error   string     `json:"error,omitempty"`
		Code    int        `json:"code,omitempty"`
		Failure codes.Code `json:"failure,omitempty"`
	}
	o := outcome{}
	if mine != nil {
		o = outcome{mine.Error(), exit.Code(mine), diagnose.FailureCode(mine)}
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
	code, failure := exit.OK, codes.Code("")
	for rank, o := range all {
		if o.Code == exit.OK {
			continue
		}
		if worse := exit.Worse(code, o.Code); worse != code {
			code, failure = worse, o.Failure
		}
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
	return codes.With(failure, exit.Sharedf(code, "%s", strings.Join(texts, "; ")))
}

// RanksHere is how many ranks of the ring share this machine's memory, as far
// as the server list tells.
func (m *Member) RanksHere() int { return ranksOn(m.Ring.Nodes(), m.Ring.Rank()) }

// Over is the device of the ring, or where its edges are of several providers, these.
func (m *Member) Over() string {
	if devices := m.Table.Devices; strings.Contains(devices, "+") || m.Ring.Right() == nil {
		return devices
	}
	return m.Ring.Right().Local.Device
}

// Where says what a result is of: "4 ranks of soft:lo at CPUs 0-3".
func (m *Member) Where() string {
	return fmt.Sprintf("%d ranks of %s%s", m.Ring.Size(), m.Over(), m.Conditions())
}

// Conditions are where the ranks poll, in their order, if that is settled, and what is done
// to them on purpose: " at CPUs 0-3, faults injected: soft: loss 1%".
func (m *Member) Conditions() (text string) {
	if len(m.CPUs) > 0 {
		text = " at CPUs " + cpu.FormatList(m.CPUs)
	}
	if injected := m.Injected(); injected != "" {
		text += ", faults injected: " + injected
	}
	return text
}

// Counters returns the counters of the devices in use, by provider, as
// "soft/name", the collectives' as "collective/name" and the ring's as "ring/name".
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
	all[RingSource+"/other_epoch"] = m.Ring.Control().Stale()
	if m.Ring.Options().Channels > 1 {
		peers, err := m.Ring.Ends().Status()
		if err != nil {
			return nil, err
		}
		for _, p := range peers {
			if !p.ID.IsMesh() {
				countTraffic(all, p)
			}
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

// countTraffic counts what a queue pair has carried, as "ring/right_2_sent_bytes" of channel
// 2 to the right.
func countTraffic(all map[string]uint64, p ring.PeerStatus) {
	traffic := reflect.ValueOf(p.Traffic)
	for i := range traffic.NumField() {
		all[fmt.Sprintf("%s/%s_%d_%s", RingSource, p.Side, p.ID.Channel(), snakeCase(traffic.Type().Field(i).Name))] = traffic.Field(i).Uint()
	}
}

// CollectiveSource and RingSource are where a counter is from that no device has counted.
const (
	CollectiveSource = "collective"
	RingSource       = "ring"
)

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

func ranksOn(nodes []hosts.Node, index int) int {
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
