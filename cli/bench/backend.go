package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/backends"
	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/collective"
	"ringcli/collective/backend"
	"ringcli/collective/reduce"
	"ringcli/collective/reduce/reference"
	"ringcli/verbs/gpu"
)

// backendFlag is --backend: of a bench several, which are compared.
func backendFlag(fs *pflag.FlagSet, several bool) {
	words := append([]string{backend.Ring}, slices.DeleteFunc(append(backend.Names(), backend.Auto), func(name string) bool { return name == backend.Ring })...)
	usage := "what runs it: " + strings.Join(words, ", ") + " (auto: of those that are there on all ranks, the one of highest priority)"
	if several {
		usage += "; several, separated by commas, are compared"
	}
	list := command.ListOf(words, "back end ", func(word string) (string, error) {
		if !slices.Contains(words, word) {
			return "", fmt.Errorf("expected %s", strings.Join(words, ", "))
		}
		return word, nil
	})
	parse := list.Parse
	list.Parse = func(text string) ([]string, error) {
		names, err := parse(text)
		switch {
		case len(names) > 1 && !several:
			return nil, fmt.Errorf("expected one back end; bench compares several")
		case len(names) > 1 && slices.Contains(names, backend.Auto):
			return nil, fmt.Errorf("expected auto alone: it is one of the others")
		}
		return names, err
	}
	list.Value = &[]string{backend.Ring}
	fs.Var(list, "backend", usage)
}

// askedBackends are those of --backend; our own ring where there is no such flag.
func askedBackends(call command.Call) []string {
	if f := call.Flags.Lookup("backend"); f != nil {
		return *f.Value.(*command.Parsed[[]string]).Value
	}
	return []string{backend.Ring}
}

// vendors are the variants of other back ends than our ring: "" is that.
func vendors(call command.Call) (list Variants, ring bool) {
	for _, name := range askedBackends(call) {
		if name == backend.Ring {
			ring = true
		} else {
			list = append(list, Variant{Backend: name})
		}
	}
	return list, ring
}

// checkBackends refuses a back end that is not here, before anything is connected, and what is
// asked of it that only our ring has.
func checkBackends(s *session.Session, call command.Call, what string, o operation) error {
	list, ring := vendors(call)
	if len(list) == 0 {
		return nil
	}
	factories, err := backend.Factories(backends.Configuration(s))
	if err != nil {
		return err
	}
	var before *backend.Factory
	for _, w := range list {
		f, err := backend.Pick(factories, w.Backend)
		if err != nil {
			return err
		}
		if reason := f.Find().Reason; reason != nil {
			return fmt.Errorf("%s: --backend %s: %w", what, w.Backend, reason)
		}
		if !o.op.OnVectors() || f.Name() == backend.Ring {
			continue
		}
		if before != nil && before.Kind() != f.Kind() {
			return exit.Usagef("%s: --backend %s needs %s memory, and --backend %s %s memory: expected back ends of one memory", what, before.Name(), before.Memory(), f.Name(), f.Memory())
		}
		before = f
		if place := call.Flags.Lookup("memory"); place != nil && place.Changed && o.place.Kind.String() != f.Memory() {
			return exit.Usagef("%s: --backend %s needs %s memory, and --memory %s is given", what, w.Backend, f.Memory(), o.place)
		}
	}
	for _, name := range []string{"algorithm", "protocol", "segment", "depth", "sync", verifySegments} {
		if f := call.Flags.Lookup(name); f != nil && f.Changed && !ring {
			return exit.Usagef("%s: --%s %s means nothing to --backend %s, which chooses that itself: expected it with --backend %s", what, name, f.Value, list[0].Backend, backend.Ring)
		}
	}
	return nil
}

// settle makes the back ends of variants, together with the other ranks, says which they are,
// and where their memory is if nobody has said so. auto becomes what it stands for.
func (o *operation) settle(ctx context.Context, m *session.Member, s *session.Session, list Variants) (Variants, error) {
	list = slices.Clone(list)
	asked := o.place
	for i := range list {
		w := &list[i]
		if w.Backend == "" {
			continue
		}
		factories, err := backend.Factories(backends.Configuration(s))
		if err != nil {
			return nil, err
		}
		if w.Backend == backend.Auto {
			if w.Backend, err = agreed(ctx, m, factories); err != nil {
				return nil, err
			}
			if w.Backend == backend.Ring {
				*w = Variant{}
				continue
			}
		}
		f, err := backend.Pick(factories, w.Backend)
		if err != nil {
			return nil, err
		}
		b, err := m.Backend(ctx, f, asked)
		if _, all := errors.AsType[*backend.RanksError](err); all {
			return nil, exit.Sharedf(exit.Code(err), "%w", err)
		}
		if err != nil {
			return nil, err
		}
		if o.vendor == nil {
			o.vendor = map[string]backend.Backend{}
		}
		o.vendor[w.Backend] = b
		if o.op.OnVectors() && o.place.Kind == gpu.Host {
			if o.place, err = gpu.ParsePlace(b.Device()); err != nil {
				return nil, err
			}
			o.placedBy = b.Name()
		}
		places, err := session.Share(ctx, m, b.Device())
		if err != nil {
			return nil, err
		}
		if err := s.Out.Notes(render.Faint, fmt.Sprintf("%s %s, priority %d: %d ranks on %s", b.Name(), f.Find().Version, b.Priority(), b.Size(), strings.Join(places, ", "))); err != nil {
			return nil, err
		}
	}
	if len(list) == 1 {
		o.backend = list[0].Backend
	}
	return list, nil
}

// agreed is the back end of the highest priority that all ranks have.
func agreed(ctx context.Context, m *session.Member, factories []*backend.Factory) (string, error) {
	var mine []string
	for _, f := range factories {
		if f.Find().Reason == nil {
			mine = append(mine, f.Name())
		}
	}
	all, err := session.Share(ctx, m, mine)
	if err != nil {
		return "", err
	}
	for _, name := range mine {
		if !slices.ContainsFunc(all, func(has []string) bool { return !slices.Contains(has, name) }) {
			return name, nil
		}
	}
	return backend.Ring, nil
}

// vendorRuns has a vendor's back end run a call on the device's buffers.
func (o operation) vendorRuns(m *session.Member, v vectors, call collective.Call) (r runs, err error) {
	call.CallOptions = collective.CallOptions{}
	r.plan, r.asked, r.backend, r.timeout = call, call, o.vendor[o.backend], m.Ring.Timeout()
	if v.device == nil {
		return r, nil // a barrier, or before there are vectors
	}
	p, err := v.device.Prepare(call)
	if err != nil {
		return r, exit.Sharedf(exit.Usage, "%w", err)
	}
	r.asked, r.on, r.OnMemory = v.device.OnDevice(call), &p, OnMemory{Memory: o.place.String()}
	return r, nil
}

// lenient makes a checker lenient where a vendor's average is not our own: it divides the
// ranks' numbers before it adds them.
func (o operation) lenient(c *reference.Checker, ranks int) {
	if o.backend != "" && o.red == reduce.Avg && o.typ.Float() && ranks&(ranks-1) != 0 {
		c.Ulps = uint64(ranks) + 1
	}
}
