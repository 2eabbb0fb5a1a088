package hand

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/ring"
	"ringcli/verbs"
)

const (
	// defaultStop is longer than a rank may be silent.
	defaultStop = 10 * time.Second
	// defaultAfter lets inject itself end before the fault.
	defaultAfter = 200 * time.Millisecond
)

func injectRow() command.Row {
	return command.Row{
		Name: "inject", Group: command.GroupRing, Where: command.Line, Needs: command.Ready, Concurrency: command.Exclusive,
		Summary: "Inject faults on purpose, to rehearse or to test",
		Long: `Does harm to the ring on purpose. Of ranks:

  kill RANK                its process ends as by SIGKILL
  stop RANK [TIME]         it stops as by SIGSTOP, for 10s if no TIME is given
  delay RANK TIME          it is late to each operation, until TIME is 0s
  cut RANK [to RANK] TIME  packets of soft are lost: to and from it, or from it
                           to another alone

They come once --after has passed, which begins when all ranks have heard of it:
in the middle of a longer operation, if that is the next line.

Otherwise packets of soft devices fare badly, on all ranks from now on, as the
setting inject has it when a ring comes up. FAULTS is
` + verbs.FaultsHelp + `

A list may name one node several times: what is to or from one of its ranks is
to or from all of them. The control ring, over TCP, has no such faults.

While faults are injected, status, the headings of results and each failure say
so; off ends those of packets and delays. set inject changes those of packets on
this rank alone.`,
		Example: "  inject 'soft: loss 1%, corrupt 0.1%, delay 2ms'\n  inject 'soft: loss 100% to 2 on 1'\n  inject kill 2 --after 1s\n  inject off",
		Args:    "FAULTS | kill RANK | ...", Words: []string{verbs.NoFaults, "kill", "stop", "delay", "cut", "soft: loss 1%", "soft: delay 2ms", "soft: down 2s every 10s"},
		CheckArgs: func(args []string) error {
			_, err := parseHarm(args)
			return err
		},
		Flags: func(fs *pflag.FlagSet) {
			command.DurationFlag(fs, "after", defaultAfter, "how long until a rank is killed, stopped or cut off")
		},
		Run: runInject,
	}
}

// harm is what is done on purpose: to the rank, or, if do is "", to packets as faults says.
type harm struct {
	do       string
	rank, to int // to: -1 if there is none
	time     time.Duration
	faults   string
}

// parseHarm reads what the arguments of inject say.
func parseHarm(args []string) (h harm, err error) {
	h = harm{rank: -1, to: -1, faults: strings.Join(args, " ")}
	if len(args) == 0 {
		return h, exit.Usagef("inject: nothing given: expected off, FAULTS, or kill, stop, delay or cut and a RANK, such as: inject kill 2")
	}
	switch args[0] {
	case "kill", "stop", "delay", "cut":
		h.do = args[0]
	default:
		if _, err := verbs.ParseFaults(h.faults); err != nil {
			return h, exit.Usagef("inject: %w; or kill, stop, delay or cut and a RANK", err)
		}
		return h, nil
	}
	expected := map[string]string{"kill": "inject kill RANK", "stop": "inject stop RANK [TIME]", "delay": "inject delay RANK TIME", "cut": "inject cut RANK [to RANK] TIME"}[h.do]
	wrong := func(what string) (harm, error) {
		return h, exit.Usagef("inject %s: %s: expected %s, as in 2 and 3s", h.faults, what, expected)
	}
	words := args[1:]
	ranks := []*int{&h.rank}
	if h.do == "cut" && len(words) > 2 && words[1] == "to" {
		words, ranks = append([]string{words[0]}, words[2:]...), append(ranks, &h.to)
	}
	for _, r := range ranks {
		if len(words) == 0 {
			return wrong("no rank is given")
		}
		if *r, err = strconv.Atoi(words[0]); err != nil || *r < 0 {
			return wrong(fmt.Sprintf("%q is no rank", words[0]))
		}
		words = words[1:]
	}
	least, most := map[string]int{"delay": 1, "cut": 1}[h.do], map[string]int{"stop": 1, "delay": 1, "cut": 1}[h.do]
	if len(words) < least || len(words) > most {
		return wrong(map[bool]string{true: "no time is given", false: "there is more than that"}[len(words) < least])
	}
	if h.do == "stop" {
		h.time = defaultStop
	}
	if len(words) > 0 {
		if h.time, err = time.ParseDuration(words[0]); err != nil || h.time < 0 || h.time == 0 && h.do != "delay" {
			return wrong(fmt.Sprintf("%q is no time", words[0]))
		}
	}
	return h, nil
}

// text says what is done.
func (h *harm) text() string {
	switch {
	case h.do == "":
		return h.faults
	case h.do == "kill":
		return fmt.Sprintf("kill rank %d", h.rank)
	case h.to >= 0:
		return fmt.Sprintf("cut rank %d to rank %d for %s", h.rank, h.to, h.time)
	case h.do == "delay":
		return fmt.Sprintf("delay rank %d by %s", h.rank, h.time)
	}
	return fmt.Sprintf("%s rank %d for %s", h.do, h.rank, h.time)
}

// InjectResult is what is done on purpose from now on, or soon.
type InjectResult struct {
	Command string   `json:"command"`
	OK      bool     `json:"ok"`
	Inject  string   `json:"inject" col:"injected on purpose"`
	Rank    *int     `json:"rank,omitempty"`    // to which it is done
	After   *float64 `json:"after_s,omitempty"` // until it is done
}

// Adjust implements render.Adjuster.
func (InjectResult) Adjust(string, *render.Cell) {}

func runInject(_ context.Context, s *session.Session, call command.Call) error {
	h, err := parseHarm(call.Args)
	if err != nil {
		return err
	}
	for _, r := range []int{h.rank, h.to} {
		if r >= s.Ring.Size() {
			return exit.Usagef("inject %s: there is no rank %d: expected 0 to %d", h.faults, r, s.Ring.Size()-1)
		}
	}
	result := InjectResult{Command: "inject", OK: true, Inject: h.text()}
	if h.do == "" {
		if err := s.Inject(h.faults); err != nil {
			return err
		}
		if h.faults == verbs.NoFaults {
			s.Member.Comm.Delay(0)
		}
		s.Place.SetInjected(h.faults)
		return s.Out.Print(result)
	}
	after, err := call.Flags.GetDuration("after")
	if err != nil {
		return err
	}
	if h.do == "cut" && s.Ring.Faults().Supported() != nil {
		return s.Ring.Faults().Supported()
	}
	result.Rank, result.After = &h.rank, new(after.Seconds())
	s.Place.AddInjected(h.text())
	if s.Ring.Rank() == h.rank {
		h.soon(s.Ring, s.Member, after)
	}
	return s.Out.Print(result)
}

// before begins the text of one fault more.
func before(r *ring.Ring) string {
	if text := r.Faults().Text(); text != "" {
		return text + ", "
	}
	return "soft: "
}

// soon does harm to this rank, unless the ring is over by then.
func (h harm) soon(r *ring.Ring, m *session.Member, after time.Duration) {
	if h.do == "delay" {
		m.Comm.Delay(h.time)
		return
	}
	time.AfterFunc(after, func() {
		if r.Usable() != nil {
			return
		}
		var err error
		switch h.do {
		case "kill":
			err = endAbruptly()
		case "stop":
			err = stopFor(h.time)
		case "cut":
			faults := fmt.Sprintf("%sdown at 0s for %s", before(r), h.time)
			if h.to >= 0 {
				faults += fmt.Sprintf(" to %d", h.to)
			}
			err = r.Faults().Inject(faults)
		}
		if err != nil {
			r.Fail(fmt.Errorf("inject %s: %w", h.faults, err))
		}
	})
}
