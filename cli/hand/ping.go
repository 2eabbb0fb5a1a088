package hand

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/failure"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/ring"
	"ringcli/ring/diagnose"
)

// DefaultPings are enough for a median that repeats.
const DefaultPings = 100

func pingRow() command.Row {
	return command.Row{
		Name: "ping", Group: command.GroupCollective, Where: command.Line, Needs: command.Opened, Own: true, Concurrency: command.Exclusive, Harmless: true,
		Summary: "Send a message to a neighbour and back over the queue pair",
		Long: `Sends a test message to a neighbour and back, over the queue pair, and verifies
its bytes at both ends. With a side it pings that neighbour alone, whose ringcli
answers by itself, whatever its user does. Without one it pings both neighbours
where this rank has a shell of its own; where rank 0 leads, or all ranks run the
same script, every rank pings its right neighbour, all at once. The times are
whole round trips. It needs queue pairs in RTS at both ends. With --all every
rank pings its right neighbour, all at once, wherever this one stands: it is the
last step of ranks that connect, which wait for one that is walked by hand.`,
		Example: "  ping left --iters 1000",
		Args:    "[left | right]", Words: []string{"left", "right"}, CheckArgs: checkSide,
		Flags: func(fs *pflag.FlagSet) {
			command.NumberFlag(fs, "iters", "", DefaultPings, 1, 1<<24, "the round trips to measure", "round trips measured")
			fs.Bool("all", false, "all ranks ping at once, as connect does")
		},
		Run: func(ctx context.Context, s *session.Session, call command.Call) error {
			switch all := command.IsOn(call.Flags, "all"); {
			case all && len(call.Args) > 0:
				return exit.Usagef("ping --all %s: expected --all, or a side", call.Args[0])
			case len(call.Args) > 0:
				return pingNeighbours(ctx, s, call)
			case all && !s.Leads && s.Member == nil:
				return pingAtOnce(ctx, s, call)
			}
			return ownOrAll(ctx, s, call, pingNeighbours, runPing)
		},
	}
}

// pingNeighbours pings one neighbour, or one after the other.
func pingNeighbours(ctx context.Context, s *session.Session, call command.Call) error {
	only, err := sideOf(call.Args)
	if err != nil {
		return err
	}
	if err := workOf(s).mayPing(session.Sides(only)); err != nil {
		return err
	}
	var failures []error
	var found []failure.SideFinding
	for _, side := range session.Sides(only) {
		end := s.Progress.Clock("ping %s", side)
		r, err := s.Ring.PingSide(ctx, side, pingsOf(call))
		end()
		if err != nil {
			failures = append(failures, err)
			if exit.Code(err) != exit.Critical || ctx.Err() != nil || s.Ring.Failed() {
				return errors.Join(failures...) // the other side would not work either
			}
			if errors.As(err, new(*ring.UnfitError)) {
				continue // which says all
			}
			found = append(found, failure.FindingsOf("ping", side, s.Ring.Ends().Diagnose(ctx, side.Edge(), err), diagnose.Warning)...)
			continue
		}
		if err := s.Out.Print(pingResult(s.Ring.Rank(), side.String(), r)); err != nil {
			return err
		}
	}
	if len(failures) == 0 {
		return nil
	}
	return failure.WithNews(errors.Join(failures...), found)
}

// pingAtOnce pings on all ranks at once, which need not be ready to share what
// they measured.
func pingAtOnce(ctx context.Context, s *session.Session, call command.Call) error {
	if err := workOf(s).mayPing(session.Sides(nil)); err != nil {
		return err
	}
	end := s.Progress.Clock("ping, all ranks at once")
	r, err := s.Ring.Ping(ctx, pingsOf(call))
	end()
	if err != nil {
		return err
	}
	return s.Out.Print(pingResult(s.Ring.Rank(), ring.Right.String(), r))
}

func pingsOf(call command.Call) int { return command.NumberOf(call.Flags, "iters") }

func runPing(ctx context.Context, s *session.Session, call command.Call) error {
	results, err := Ping(ctx, s.Member, s, pingsOf(call))
	if err != nil {
		return err
	}
	return s.Out.Print(results...)
}

// Ping pings on all ranks and returns everybody's results, by rank.
func Ping(ctx context.Context, m *session.Member, s *session.Session, count int) ([]render.Record, error) {
	defer s.Progress.Clock("ping")()
	r, err := m.Ring.Ping(ctx, count)
	if err != nil {
		return nil, err
	}
	all, err := session.Share(ctx, m, pingResult(m.Ring.Rank(), "", r))
	return render.Records(all), err
}

func pingResult(rank int, side string, r ring.PingResult) PingResult {
	us := func(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
	return PingResult{
		Command: "ping", OK: true, Rank: rank, Peer: r.Peer, Side: side, Bytes: r.Bytes, Iters: r.Count,
		RTT: RoundTrip{us(r.Min), us(r.P50), us(r.P99), us(r.Max)},
	}
}

// PingResult is a rank's ping of a neighbour: a message there and back over the
// queue pair, its bytes verified at both ends.
type PingResult struct {
	Command string    `json:"command"`
	OK      bool      `json:"ok"`
	Rank    int       `json:"rank" col:"ping|14|left"`
	Peer    int       `json:"peer"`
	Side    string    `json:"side,omitempty"` // of a ping of one neighbour; else the right one was pinged
	Bytes   int       `json:"bytes" col:"bytes|6"`
	Iters   int       `json:"iters" col:"iters|6"`
	RTT     RoundTrip `json:"rtt_us" col:"Min=min us|9; P50=p50 us|9; P99=p99 us|9; Max=max us|9"`
}

// RoundTrip are the percentiles of whole round trips, in microseconds.
type RoundTrip struct {
	Min float64 `json:"min"`
	P50 float64 `json:"p50"`
	P99 float64 `json:"p99"`
	Max float64 `json:"max"`
}

// Adjust implements render.Adjuster.
func (p PingResult) Adjust(column string, cell *render.Cell) {
	if column == "ping" {
		cell.Text = strings.TrimSpace(fmt.Sprintf("%d -> %d %s", p.Rank, p.Peer, p.Side))
	}
}
