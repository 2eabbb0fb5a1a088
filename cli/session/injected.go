package session

import (
	"fmt"
	"slices"
	"strings"

	"ringcli/verbs"
)

// Inject has this rank's packets fare as the text says from now on, which is that of the
// setting inject, in rings to come too.
func (s *Session) Inject(text string) error {
	next, err := s.Config.With("inject", text)
	if err != nil {
		return err
	}
	if s.Ring != nil && s.Ring.Usable() == nil {
		if err := s.Ring.Faults().Inject(text); err != nil {
			return err
		}
	}
	s.Config = next
	return nil
}

// SetInjected remembers what is done on purpose to the ring: texts of the setting inject
// by rank, or that of all ranks.
func (p *Place) SetInjected(texts ...string) {
	var parts []string
	same := len(slices.Compact(slices.Clone(texts))) == 1
	for rank, text := range texts {
		if text == verbs.NoFaults {
			continue
		}
		if same {
			parts = []string{text}
			break
		}
		parts = append(parts, fmt.Sprintf("rank %d: %s", rank, text))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.injected = parts
}

// AddInjected remembers one thing more that is done on purpose.
func (p *Place) AddInjected(text string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.injected = append(p.injected, text)
}

// Injected is what is done on purpose to the ring, as far as this rank knows; "" if nothing
// is.
func (p *Place) Injected() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return strings.Join(p.injected, "; ")
}

// InjectedNote tells people of it; "" if there is nothing to tell.
func (p *Place) InjectedNote() string {
	if text := p.Injected(); text != "" {
		return "faults are injected on purpose: " + text
	}
	return ""
}
