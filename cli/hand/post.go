package hand

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/configs"
	"ringcli/ring"
	"ringcli/ring/diagnose"
	"ringcli/verbs"
	"ringcli/verbs/memory"
)

type handOp struct {
	name   string
	opcode verbs.Opcode
	flags  []string
}

// handOps are all that can be posted; recv is none of verbs.Opcode.
var handOps = []handOp{
	{"recv", 0, []string{"mr", "offset", "length"}},
	{"send", verbs.OpSend, []string{"mr", "offset", "length", "text", "imm"}},
	{"write", verbs.OpWrite, slices.Concat([]string{"mr", "offset", "length", "text", "imm"}, remoteFlags)},
	{"read", verbs.OpRead, slices.Concat([]string{"mr", "offset", "length"}, remoteFlags)},
	{"fetch-add", verbs.OpFetchAdd, slices.Concat([]string{"mr", "offset", "add"}, remoteFlags)},
	{"comp-swap", verbs.OpCompSwap, slices.Concat([]string{"mr", "offset", "compare", "swap"}, remoteFlags)},
}

var remoteFlags = []string{"remote", "remote-addr", "rkey", "remote-offset"}

func handOpOf(name string) (handOp, bool) {
	i := slices.IndexFunc(handOps, func(o handOp) bool { return o.name == name })
	if i < 0 {
		return handOp{}, false
	}
	return handOps[i], true
}

func (o handOp) String() string { return o.name }

func postRow() command.Row {
	return command.Row{
		Name: "post", Group: command.GroupRing, Where: command.Line, Needs: command.Opened, Own: true, Concurrency: command.Exclusive,
		Summary: "Post a receive, SEND, WRITE, READ or atomic by hand",
		Long: `Posts one work request to the queue pair of a side; poll shows its completion.
Local memory is a region of mr reg, from --offset on, or the --text of a SEND or
WRITE, which goes inline; with neither a request has 0 bytes. A WRITE, READ or
atomic goes to the neighbour's region that --remote names: by default its region
of the same name, or its slots. --remote-addr, --rkey, --remote-offset, --offset
and --length are sent as given, right or wrong, to see what comes of it.

A receive stands behind the 128 that init posts to every queue pair, which is
then full: init --receives 0 leaves them out.`,
		Example: `  post recv left --mr a
  post send right --text hello --imm 7
  post write right --mr a --length 64 --rkey 0x1234`,
		Args: strings.Join(render.Words(handOps), "|") + " left|right", Complete: completePost, CheckArgs: checkPost,
		Flags: func(fs *pflag.FlagSet) {
			fs.String("mr", "", "local memory: a region of mr reg")
			command.Completes(fs, "mr", "regions")
			command.SizeFlag(fs, "offset", 0, "where in the region to begin, in bytes")
			wideFlag(fs, "length", "bytes (the rest of the region)")
			fs.String("text", "", "send, write: this text, inline, in place of a region")
			command.Completes(fs, "text", "nothing")
			wideFlag(fs, "imm", "send, write: 32 bits of immediate data")
			fs.String("remote", "", "the neighbour's region (of the same name, or its slots)")
			command.Completes(fs, "remote", "regions")
			wideFlag(fs, "remote-addr", "address at the neighbour (the region's)")
			wideFlag(fs, "rkey", "key at the neighbour (the region's)")
			wideFlag(fs, "remote-offset", "bytes to add to the address at the neighbour")
			wideFlag(fs, "add", "fetch-add: what to add (1)")
			wideFlag(fs, "compare", "comp-swap: what has to be there (0)")
			wideFlag(fs, "swap", "comp-swap: what to put there (1)")
		},
		Run: runPost,
	}
}

// wideFlag is a number of 64 bits that may be left out.
func wideFlag(fs *pflag.FlagSet, name, usage string) {
	fs.Var(&command.Parsed[uint64]{Kind: "n", Parse: func(text string) (uint64, error) {
		text = strings.TrimSpace(text)
		v, err := strconv.ParseUint(text, 0, 64)
		if err != nil {
			if v, err = configs.ParseSize(text); err != nil {
				return 0, fmt.Errorf("expected a whole number, decimal or 0x")
			}
		}
		return v, nil
	}}, name, usage)
}

func completePost(args []string) []string {
	switch len(args) {
	case 0:
		return render.Words(handOps)
	case 1:
		return render.Words(sides)
	}
	return nil
}

func checkPost(args []string) error {
	expected := "expected " + strings.Join(render.Words(handOps), ", ") + ", and left or right"
	if len(args) != 2 {
		return exit.Usagef("post %s: %s", strings.Join(args, " "), expected)
	}
	if _, known := handOpOf(args[0]); !known {
		return exit.Usagef("post %s: %s", args[0], expected)
	}
	return checkSide(args[1:])
}

// check refuses flags that an operation does not take.
func (o handOp) check(fs *pflag.FlagSet) error {
	var err error
	fs.Visit(func(f *pflag.Flag) {
		known := slices.ContainsFunc(handOps, func(o handOp) bool { return slices.Contains(o.flags, f.Name) })
		if err == nil && known && !slices.Contains(o.flags, f.Name) {
			err = exit.Usagef("post %s: --%s: expected only --%s", o.name, f.Name, strings.Join(o.flags, ", --"))
		}
	})
	switch {
	case err != nil:
		return err
	case command.TextOf(fs, "mr") != "" && fs.Changed("text"):
		return exit.Usagef("post %s: --mr and --text: expected one of them", o.name)
	case command.TextOf(fs, "mr") == "" && (fs.Changed("offset") || fs.Changed("length")):
		return exit.Usagef("post %s: --offset or --length without --mr: expected the region that they are of", o.name)
	case command.TextOf(fs, "mr") == "" && !slices.Contains(o.flags, "text") && o.name != "recv":
		return exit.Usagef("post %s: expected --mr NAME, the memory that the result goes to; `mr reg NAME --size 4K` registers some", o.name)
	}
	for _, name := range []string{"imm", "rkey", "length"} {
		if command.Value[uint64](fs, name) > 1<<32-1 {
			return exit.Usagef("post %s: --%s %s: expected 32 bits", o.name, name, command.TextOf(fs, name))
		}
	}
	return nil
}

// remoteOf finds what the flags name at a neighbour; a length of 0 is not known.
func remoteOf(ctx context.Context, s *session.Session, fs *pflag.FlagSet, side ring.Side) (m diagnose.Region, err error) {
	addr, rkey := command.Given[uint64](fs, "remote-addr"), command.Given[uint64](fs, "rkey")
	if name := command.TextOf(fs, "remote"); name != "" || addr == nil || rkey == nil {
		if m, err = remoteRegion(ctx, s, side, name, command.TextOf(fs, "mr")); err != nil {
			return m, err
		}
	}
	if addr != nil {
		m.Name, m.Length = "memory", 0
	}
	m.Addr, m.RKey = command.Or(addr, m.Addr), uint32(command.Or(rkey, uint64(m.RKey)))
	offset := command.Value[uint64](fs, "remote-offset")
	m.Addr += offset
	m.Length -= min(m.Length, offset)
	return m, nil
}

// remoteRegion finds a neighbour's region by its name; without one that of the
// same name as the own, or else its slots.
func remoteRegion(ctx context.Context, s *session.Session, side ring.Side, name, same string) (diagnose.Region, error) {
	peer, err := s.Ring.Ends().Peer(ctx, side.Edge())
	if err != nil {
		return diagnose.Region{}, fmt.Errorf("which regions the %s neighbour has: %w; --remote-addr and --rkey do without", side, err)
	}
	list := remoteRegions(&peer)
	var have []string
	for _, wanted := range []string{name, same, SlotsName} {
		for _, g := range list {
			if wanted != "" && g.Name == wanted {
				return g, nil
			}
		}
		if name != "" {
			break
		}
	}
	for _, g := range list {
		have = append(have, g.Name)
	}
	return diagnose.Region{}, exit.Usagef("the %s neighbour, rank %d, has no region %q: expected one of its own (%s)",
		side, peer.Rank, cmp.Or(name, "-"), cmp.Or(strings.Join(have, ", "), "-"))
}

func runPost(ctx context.Context, s *session.Session, call command.Call) error {
	op, _ := handOpOf(call.Args[0])
	fs := call.Flags
	if s.Leads {
		return exit.Usagef("post: this rank leads, and its followers cannot poll by hand: `close`, and open a shell on every node")
	}
	if err := op.check(fs); err != nil {
		return err
	}
	if err := needsQP(s.Ring, "post"); err != nil {
		return err
	}
	only, err := sideOf(call.Args[1:])
	if err != nil {
		return err
	}
	h := workOf(s)
	h.on(s.Ring)
	p, err := prepare(ctx, s, op, *only, fs)
	if err != nil {
		return err
	}
	edge := s.Ring.Edge(only.Edge())
	h.posted[p.request.id] = p.request
	if op.name == "recv" {
		_, err = edge.QP.PostRecv([]verbs.WorkRequest{p.wr})
	} else {
		_, err = edge.QP.PostSend([]verbs.WorkRequest{p.wr})
	}
	if p.text != nil { // inline: it was copied
		err = errors.Join(err, p.text.Free())
	}
	if err != nil {
		delete(h.posted, p.request.id)
		return notPosted(s, op, *only, err)
	}
	p.result.Outstanding = len(h.posted)
	return s.Out.Print(p.result)
}

// prepared is a work request that is ready to be posted.
type prepared struct {
	wr      verbs.WorkRequest
	request *request
	result  Posted
	text    *memory.Block
}

func prepare(ctx context.Context, s *session.Session, op handOp, side ring.Side, fs *pflag.FlagSet) (p prepared, err error) {
	h := workOf(s)
	edge := s.Ring.Edge(side.Edge())
	h.number++
	id := ring.WRID(side.Edge(), ring.WRHand, h.number)
	p.request = &request{id: id, side: side, queue: "send"}
	p.wr = verbs.WorkRequest{ID: id, Opcode: op.opcode, Flags: verbs.FlagSignaled}
	p.result = Posted{Command: "post", OK: true, Rank: s.Ring.Rank(), Peer: edge.Peer, Side: side.String(), Op: op.name, WRID: id}
	var remote diagnose.Region
	if slices.Contains(op.flags, "rkey") {
		if remote, err = remoteOf(ctx, s, fs, side); err != nil {
			return p, err
		}
		p.wr.RemoteAddr, p.wr.RKey = remote.Addr, remote.RKey
		p.result.Remote, p.result.RemoteAddr, p.result.RKey = remote.Name, remote.Addr, remote.RKey
	}
	local := "no memory"
	switch name := command.TextOf(fs, "mr"); {
	case name != "":
		g, err := h.find(name)
		if err != nil {
			return p, err
		}
		offset := command.SizeOf(fs, "offset")
		length := g.reg.Length - min(g.reg.Length, offset)
		if remote.Length > 0 {
			length = min(length, remote.Length)
		}
		if op.opcode == verbs.OpFetchAdd || op.opcode == verbs.OpCompSwap {
			length = 8
		} else {
			length = command.Or(command.Given[uint64](fs, "length"), length)
		}
		p.request.region, p.request.addr, p.request.length = g, g.reg.Addr+offset, length
		p.wr.SGL = []verbs.SGE{{Addr: p.request.addr, Length: uint32(length), LKey: g.reg.LKey(edge.Device())}}
		local = fmt.Sprintf("%s+%d", name, offset)
		p.result.LKey = g.reg.LKey(edge.Device())
	case fs.Changed("text"):
		text := command.TextOf(fs, "text")
		if limit := ring.MessageSize; len(text) > limit {
			return p, exit.Usagef("post %s: --text of %d bytes: expected at most %d, which go inline; `mr reg NAME --fill TEXT` takes more", op.name, len(text), limit)
		}
		if p.text, err = memory.Alloc(uint64(len(text))); err != nil {
			return p, err
		}
		p.request.addr, p.request.length = p.text.Addr(), uint64(copy(p.text.Bytes(), text))
		p.wr.SGL = []verbs.SGE{{Addr: p.request.addr, Length: uint32(len(text))}}
		p.wr.Flags |= verbs.FlagInline
		local = "a text"
	}
	p.result.Local, p.result.Addr, p.result.Length = local, p.request.addr, p.request.length
	if imm := command.Given[uint64](fs, "imm"); imm != nil {
		p.wr.Imm = uint32(*imm)
		p.wr.Opcode = map[verbs.Opcode]verbs.Opcode{verbs.OpSend: verbs.OpSendImm, verbs.OpWrite: verbs.OpWriteImm}[op.opcode]
		p.result.Imm = &p.wr.Imm
	}
	p.wr.CompareAdd = command.Or(command.Given[uint64](fs, "add"), 1)
	if op.opcode == verbs.OpCompSwap {
		p.wr.CompareAdd, p.wr.Swap = command.Value[uint64](fs, "compare"), command.Or(command.Given[uint64](fs, "swap"), 1)
	}
	if op.name == "recv" {
		p.request.queue = "receive"
		p.wr.Opcode, p.wr.Flags = 0, 0
	}
	p.request.what = inWords(op, p, remote, edge.Peer, local)
	p.result.What = p.request.what
	return p, nil
}

func inWords(op handOp, p prepared, remote diagnose.Region, peer int, local string) string {
	there := fmt.Sprintf("rank %d's %s", peer, remote.Name)
	n := render.Bytes(p.request.length)
	switch op.name {
	case "recv":
		return fmt.Sprintf("receive into %s, %s, from rank %d", local, n, peer)
	case "send":
		return fmt.Sprintf("%s of %s, %s, to rank %d", p.wr.Opcode, local, n, peer)
	case "write":
		return fmt.Sprintf("%s of %s, %s, to %s", p.wr.Opcode, local, n, there)
	case "read":
		return fmt.Sprintf("%s of %s, %s, into %s", p.wr.Opcode, there, n, local)
	default:
		return fmt.Sprintf("%s at %s, into %s", p.wr.Opcode, there, local)
	}
}

// notPosted says why a request was refused.
func notPosted(s *session.Session, op handOp, side ring.Side, err error) error {
	own, failed := s.Ring.Ends().Own(side.Edge())
	if failed != nil {
		return fmt.Errorf("post %s %s: %w", op.name, side, err)
	}
	switch {
	case op.name == "recv" && errors.Is(err, verbs.ErrNoMemory):
		return exit.Usagef("post recv %s: the receive queue is full, most of it with the receives of init: `reset`, then `init --receives 0`: %w", side, err)
	case own.QPState.Is(verbs.StateReset), own.QPState.Is(verbs.StateInit, verbs.StateRTR) && op.name != "recv":
		return exit.Usagef("post %s %s: the queue pair is %s: expected RTS to send, and INIT or later to receive: %w", op.name, side, own.QPState, err)
	}
	return fmt.Errorf("post %s %s: the queue pair is %s: %w", op.name, side, own.QPState, err)
}

// Posted is a work request that was posted.
type Posted struct {
	Command     string  `json:"command"`
	OK          bool    `json:"ok"`
	Rank        int     `json:"rank"`
	Peer        int     `json:"peer"`
	Side        string  `json:"side" col:"side|5"`
	Op          string  `json:"op"`
	WRID        uint64  `json:"wr_id"`
	What        string  `json:"what" col:"posted|last"`
	Local       string  `json:"local"` // the region and the offset in it, or "a text"
	Addr        uint64  `json:"addr"`
	LKey        uint32  `json:"lkey"`
	Length      uint64  `json:"length"` // bytes
	Remote      string  `json:"remote"` // the neighbour's region, if it is known
	RemoteAddr  uint64  `json:"remote_addr" col:"remote addr|14|left|%#x"`
	RKey        uint32  `json:"rkey" col:"rkey|6|%#x"`
	Imm         *uint32 `json:"imm,omitempty"`
	Outstanding int     `json:"outstanding"` // posted by hand and not polled, this one included
}

// Adjust implements render.Adjuster.
func (p Posted) Adjust(column string, cell *render.Cell) {
	if p.Remote == "" && (column == "remote addr" || column == "rkey") {
		cell.Text = "-"
	}
}
