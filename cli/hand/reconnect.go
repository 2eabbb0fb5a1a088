package hand

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/ring/bootstrap/hosts"
)

// withoutFlag says who is left out; it is no setting, and holds once.
const withoutFlag = "without"

func reconnectRow() command.Row {
	return command.Row{
		Name: "reconnect", Group: command.GroupRing, Where: command.Line, Concurrency: command.Exclusive,
		Summary: "Rebuild the ring of the same list, after a failure too",
		Long: `Closes the ring that there is, whether it has failed or not, and brings one of
the same list up in a new epoch: queue pairs, PSNs and keys are new, and what
the last ring left behind is dropped. All ranks reconnect at the same time;
followers do by themselves, and so does a rank that was started again with its
index. A rank that is not there in time is named, and the others can try again.

With --without the ring goes on without some ranks, given by their numbers in
the last ring or by their nodes. Those that remain keep their order and are
numbered anew, from 0. Where nobody leads, all ranks are given the same
--without. Rank 0, where it leads, cannot be left out: followers end with their
leader. A follower that is left out says so and ends with exit code 0, after a
failure too: it has done what it was told. A reconnect that fails changes
nothing: the next one names again what it leaves out. connect takes back who was
left out.

In the shell of local, ranks that have ended are started again, but for those
that are left out.`,
		Example:  "  reconnect\n  reconnect --without 2\n  reconnect --without node3,node7",
		Settings: session.HandSettings[2:],
		Flags: func(fs *pflag.FlagSet) {
			fs.StringSlice(withoutFlag, nil, "ranks or nodes that the ring goes on without, comma separated")
			command.Completes(fs, withoutFlag, "nodes")
		},
		Run: runReconnect,
	}
}

// ReconnectResult is a ring that was rebuilt, as one rank sees it.
type ReconnectResult struct {
	Command string   `json:"command"`
	OK      bool     `json:"ok"`
	Epoch   uint32   `json:"epoch" col:"epoch|10"`
	Ranks   int      `json:"ranks" col:"ranks|5"`
	Rank    int      `json:"rank" col:"rank|4"` // this one
	Was     int      `json:"was" col:"was|3"`   // this rank's number in the last ring
	Without []string `json:"without"`           // nodes that were left out, now or before
	Old     []int    `json:"old"`               // by rank: its number in the last ring; -1: it was not there
	Seconds float64  `json:"seconds" col:"s|6|%.2f"`
}

// Adjust implements render.Adjuster.
func (ReconnectResult) Adjust(string, *render.Cell) {}

func runReconnect(ctx context.Context, s *session.Session, call command.Call) error {
	p := s.Place
	if s.Ring == nil && p.History.Last() == 0 {
		return exit.Usagef("reconnect: there was no ring: `connect` brings one up")
	}
	if err := keepSettings(s, call); err != nil {
		return err
	}
	whole, before, err := s.Whole()
	if err != nil {
		return err
	}
	words, err := call.Flags.GetStringSlice(withoutFlag)
	if err != nil {
		return err
	}
	index, leads := s.Config.Int("index"), s.Leads || p.Led
	left, err := leftOut(words, whole, before, s.Config.Int("tcp-port"))
	if err != nil {
		return err
	}
	if slices.Contains(left, index) {
		instead := "give that to the others, and `close` this one"
		if leads {
			instead = "it leads, and its followers end with it; end it, and start the others with another --list"
		}
		return exit.Usagef("reconnect --without %s: that is this rank itself: %s", strings.Join(words, ","), instead)
	}
	last, decided := p.Without, slices.Sorted(slices.Values(slices.Concat(p.Without, left)))
	begun := time.Now()
	if err := s.Rejoin(ctx, decided, leads, Leaving(s), 0); err != nil {
		p.Without = last
		return err
	}
	_, now, err := s.Whole()
	if err != nil {
		return err
	}
	r := ReconnectResult{
		Command: "reconnect", OK: true, Epoch: s.Ring.Epoch(), Ranks: s.Ring.Size(), Rank: s.Ring.Rank(), Was: slices.Index(before, index),
		Seconds: time.Since(begun).Seconds(), Without: []string{},
	}
	for _, e := range p.Without {
		r.Without = append(r.Without, whole[e].String())
	}
	for _, e := range now {
		r.Old = append(r.Old, slices.Index(before, e))
	}
	if err := s.Out.Print(r); err != nil {
		return err
	}
	if text := renumbered(r); text != "" {
		return s.Out.Note(render.Plain, "%s", text)
	}
	return nil
}

// renumbered says who is who now.
func renumbered(r ReconnectResult) string {
	var moved []string
	for now, old := range r.Old {
		if old != now {
			moved = append(moved, fmt.Sprintf("rank %d is rank %d now", old, now))
		}
	}
	if len(r.Without) == 0 {
		return ""
	}
	return strings.Join(append([]string{"without " + strings.Join(r.Without, ", ")}, moved...), "; ")
}

// leftOut returns the entries of the whole list that words name: by rank in the last ring,
// whose ranks have these places there, or by node.
func leftOut(words []string, whole []hosts.Node, places []int, port int) (left []int, err error) {
	for _, word := range words {
		found := false
		if rank, wrong := strconv.Atoi(word); wrong == nil {
			if rank < 0 || rank >= len(places) {
				return nil, exit.Usagef("reconnect --without %s: the last ring had %d ranks: expected 0 to %d, or a node", word, len(places), len(places)-1)
			}
			left, found = append(left, places[rank]), true
		} else {
			for _, e := range places {
				if word == whole[e].Host || word == whole[e].String() {
					left, found = append(left, e), true
				}
			}
		}
		if !found {
			return nil, exit.Usagef("reconnect --without %s: no node of the last ring: expected a rank from 0 to %d, or a node as the list names it", word, len(places)-1)
		}
	}
	slices.Sort(left)
	left = slices.Compact(left)
	return left, nil
}
