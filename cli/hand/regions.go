package hand

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/ring"
	"ringcli/ring/diagnose"
	"ringcli/verbs"
)

var regionVerbs = []string{"reg", "list", "show", "dereg"}

// regionRow is `mr`.
func (h *Work) regionRow() command.Row {
	return command.Row{
		Name: "mr", Group: command.GroupRing, Where: command.Line, Needs: command.Opened, Own: true, Concurrency: command.Exclusive,
		Summary: "Register memory by hand, show it, list it, take it back",
		Long: `Registers memory in the ring's protection domain under a name, which both
neighbours' shells are told with its address and rkey, for post; list shows the
regions of this rank and of both neighbours; show dumps the bytes of one, as hex
and text; dereg takes one back, once nothing posted uses it. Regions last until
the ring is closed.

reg takes --size, --access and --fill, which fills the region with a text or
with bytes such as 0xdeadbeef, again and again; show takes --offset and
--length.`,
		Example: `  mr reg a --size 4K --access remote-write,remote-read --fill hello
  mr show a --length 64`,
		Args: "reg|list|show|dereg [NAME]", Complete: h.completeRegion, CheckArgs: checkRegion,
		Flags: func(fs *pflag.FlagSet) {
			command.SizeFlag(fs, "size", 4<<10, "reg: bytes to register")
			rightsFlag(fs, "access", "reg: what the neighbours may do: remote-write, remote-read, remote-atomic, comma separated, or none (all)")
			fs.String("fill", "", "reg: a text, or bytes as 0x..., to fill it with (zeroes)")
			command.Completes(fs, "fill", "nothing")
			command.SizeFlag(fs, "offset", 0, "show: where to begin, in bytes")
			command.SizeFlag(fs, "length", 256, "show: bytes to show")
		},
		Run: runRegion,
	}
}

// maxRegion is the most that a region by hand may have.
const maxRegion = 1 << 30

func checkRegion(args []string) error {
	switch {
	case len(args) == 0 || !slices.Contains(regionVerbs, args[0]):
		return exit.Usagef("mr %s: expected reg NAME, list, show NAME or dereg NAME", strings.Join(args, " "))
	case args[0] == "list" && len(args) > 1:
		return exit.Usagef("mr list: unexpected argument %q: expected none", args[1])
	case args[0] != "list" && len(args) != 2:
		return exit.Usagef("mr %s: expected one name", strings.Join(args, " "))
	}
	return nil
}

func (h *Work) completeRegion(args []string) []string {
	switch {
	case len(args) == 0:
		return regionVerbs
	case len(args) == 1 && (args[0] == "show" || args[0] == "dereg"):
		return h.RegionNames()
	}
	return nil
}

func runRegion(ctx context.Context, s *session.Session, call command.Call) error {
	workOf(s).on(s.Ring)
	switch call.Args[0] {
	case "reg":
		return register(s, call)
	case "show":
		return dump(s, call)
	case "dereg":
		return deregister(s, call.Args[1])
	}
	return listRegions(ctx, s)
}

func register(s *session.Session, call command.Call) error {
	h, name, size := workOf(s), call.Args[1], command.SizeOf(call.Flags, "size")
	access := verbs.AccessLocalWrite | verbs.AccessRemoteWrite | verbs.AccessRemoteRead | verbs.AccessRemoteAtomic
	if given := command.Given[verbs.Access](call.Flags, "access"); given != nil {
		access = *given
	}
	pattern, err := patternOf(command.TextOf(call.Flags, "fill"))
	switch {
	case err != nil:
		return err
	case name == "" || name == SlotsName || len(name) > 32 || strings.ContainsAny(name, " \t\"'\\;,"):
		return exit.Usagef("mr reg %q: expected a name of at most 32 characters without blanks and quotes, and not %s", name, SlotsName)
	case h.regions[name] != nil:
		return exit.Usagef("mr reg %s: there is a region of this name: expected another, or `mr dereg %s` first", name, name)
	case size == 0 || size > maxRegion:
		return exit.Usagef("mr reg %s: --size %d: expected 1 to %d bytes", name, size, maxRegion)
	}
	block, err := s.Ring.Memory().Alloc(size)
	if err != nil {
		return fmt.Errorf("allocate %s: %w", render.Bytes(size), err)
	}
	b := block.Bytes()
	for at := 0; len(pattern) > 0 && at < len(b); {
		at += copy(b[at:], pattern)
	}
	reg, err := s.Ring.Memory().Register(block.Addr(), size, access)
	if err != nil {
		return errors.Join(err, block.Free())
	}
	g := &region{name, block, reg}
	h.regions[name] = g
	s.Ring.Memory().AddRegion(name, reg)
	h.publishNames()
	return s.Out.Print(ownRegion(s.Ring, g)...)
}

// ownRegion shows a region of this rank, once for each device: its keys differ.
func ownRegion(r *ring.Ring, g *region) []render.Record {
	var rows []render.Record
	for _, d := range r.Devices() {
		rows = append(rows, regionInfo(r.Rank(), OwnEnd, d.Name, g.reg.RegionOn(d, g.name)))
	}
	return rows
}

// patternOf reads a text, or bytes as 0x....
func patternOf(text string) ([]byte, error) {
	digits, isHex := strings.CutPrefix(text, "0x")
	if !isHex {
		return []byte(text), nil
	}
	b, err := hex.DecodeString(digits)
	if err != nil || len(b) == 0 {
		return nil, exit.Usagef("--fill %s: expected a text, or 0x and pairs of hexadecimal digits", text)
	}
	return b, nil
}

// find returns a region of this rank.
func (h *Work) find(name string) (*region, error) {
	if r := h.regions[name]; r != nil {
		return r, nil
	}
	have := cmp.Or(strings.Join(slices.Sorted(maps.Keys(h.regions)), ", "), "none")
	return nil, exit.Usagef("no region %q here: expected one of this rank's own (%s); `mr reg %s --size 4K` registers one", name, have, name)
}

func deregister(s *session.Session, name string) error {
	h := workOf(s)
	g, err := h.find(name)
	if err != nil {
		return err
	}
	if users := h.waiting(func(q *request) bool { return q.region == g }); len(users) > 0 {
		return exit.Usagef("mr dereg %s: %s is posted and not polled, and uses it: `poll` first, or `reset`", name, users[0].what)
	}
	if err := h.drop(name); err != nil {
		return err
	}
	h.publishNames()
	return s.Out.Note(render.Plain, "region %s is no more: its keys are dead", name)
}

// drop deregisters a region and frees its memory, in this order: when the keys are
// dead nothing that arrives can touch it.
func (h *Work) drop(name string) error {
	g := h.regions[name]
	h.ring.Memory().RemoveRegion(name)
	if err := g.reg.Close(); err != nil {
		return fmt.Errorf("region %s: %w", name, err) // what may be in use still is not freed
	}
	delete(h.regions, name)
	return g.block.Free()
}

// listRegions shows the regions of this rank and of both neighbours.
func listRegions(ctx context.Context, s *session.Session) error {
	h, r := workOf(s), s.Ring
	var rows []render.Record
	for _, name := range slices.Sorted(maps.Keys(h.regions)) {
		rows = append(rows, ownRegion(r, h.regions[name])...)
	}
	var unknown []string
	for _, side := range session.Sides(nil) {
		peer, err := r.Ends().Peer(ctx, side.Edge())
		if err != nil {
			unknown = append(unknown, fmt.Sprintf("the %s neighbour's regions are not known: %v", side, err))
			continue
		}
		for _, g := range remoteRegions(&peer) {
			g.LKey = 0 // its own business
			rows = append(rows, regionInfo(peer.Rank, side.String(), peer.Device, g))
		}
	}
	if err := s.Out.Print(rows...); err != nil {
		return err
	}
	return s.Out.Notes(render.Fair, unknown...)
}

// remoteRegions are what requests can reach at a neighbour: its regions and its
// slots.
func remoteRegions(peer *diagnose.End) []diagnose.Region {
	list := slices.Clone(peer.Regions)
	if peer.Slots.Length > 0 {
		list = append(list, diagnose.Region{
			Name: SlotsName, Addr: peer.Slots.Addr, Length: peer.Slots.Length, RKey: peer.Slots.RKey,
			Access: verbs.AccessLocalWrite | verbs.AccessRemoteWrite,
		})
	}
	return list
}

// RegionInfo is registered memory of this rank or of a neighbour.
type RegionInfo struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Rank    int    `json:"rank" col:"rank"`
	Whose   string `json:"whose" col:"whose|5|first"`         // own, or the neighbour's: left, right
	Device  string `json:"device" col:"device|before=access"` // whose keys these are
	Name    string `json:"name" col:"region|5"`
	Addr    uint64 `json:"addr" col:"addr|14|left|%#x"`
	Length  uint64 `json:"length" col:"length|7"` // bytes
	LKey    uint32 `json:"lkey" col:"lkey|6|%#x"` // 0 of a neighbour's
	RKey    uint32 `json:"rkey" col:"rkey|6|%#x"`
	Access  string `json:"access" col:"access|last"` // as --access takes it
}

func regionInfo(rank int, whose, device string, g diagnose.Region) RegionInfo {
	return RegionInfo{
		Command: "mr", OK: true, Rank: rank, Whose: whose, Device: device, Name: g.Name, Addr: g.Addr, Length: g.Length, LKey: g.LKey, RKey: g.RKey,
		Access: rightsText(g.Access),
	}
}

// Adjust implements render.Adjuster.
func (r RegionInfo) Adjust(column string, cell *render.Cell) {
	switch {
	case column == "lkey" && r.Whose != OwnEnd:
		cell.Text = "-"
	case column == "access":
		cell.Text = strings.ReplaceAll(r.Access, "remote-", "")
	}
}

// dump shows the bytes of a region, 16 a line.
func dump(s *session.Session, call command.Call) error {
	g, err := workOf(s).find(call.Args[1])
	if err != nil {
		return err
	}
	offset, length := command.SizeOf(call.Flags, "offset"), command.SizeOf(call.Flags, "length")
	all := g.block.Bytes()
	if offset >= uint64(len(all)) {
		return exit.Usagef("mr show %s: --offset %d: expected 0 to %d", g.name, offset, len(all)-1)
	}
	length = min(length, uint64(len(all))-offset)
	var rows []render.Record
	for ; length > 0; offset += dumpWidth {
		n := min(length, dumpWidth)
		b := slices.Clone(all[offset : offset+n])
		rows = append(rows, MemoryLine{Command: "mr", OK: true, Name: g.name, Offset: offset, Hex: hex.EncodeToString(b), Text: printable(b)})
		length -= n
	}
	return s.Out.Print(rows...)
}

const dumpWidth = 16

// MemoryLine is up to 16 bytes of a region.
type MemoryLine struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Name    string `json:"name"`
	Offset  uint64 `json:"offset" col:"offset|8|left|%08x"`
	Hex     string `json:"hex" col:"bytes|47"`
	Text    string `json:"text" col:"text"` // a dot for what is no printable ASCII
}

// Adjust implements render.Adjuster.
func (m MemoryLine) Adjust(column string, cell *render.Cell) {
	if column == "bytes" {
		b, _ := hex.DecodeString(m.Hex) // which EncodeToString has written
		cell.Text = fmt.Sprintf("% x", b)
	}
}

func printable(b []byte) string {
	text := make([]byte, len(b))
	for i, c := range b {
		if text[i] = '.'; c >= ' ' && c <= '~' {
			text[i] = c
		}
	}
	return string(text)
}

// publishNames tells completion of the regions that there are.
func (h *Work) publishNames() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.names = slices.Sorted(maps.Keys(h.regions))
}

// RegionNames are the names of the regions of the ring that is open: a process is
// one rank, and what completes has no session.
func (h *Work) RegionNames() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.names)
}
