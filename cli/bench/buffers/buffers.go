// Package buffers has the memory that a collective is measured on, which may be other than a
// Comm's own: what a program has already, as an allocator, a mapping or a file gave it.
package buffers

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/collective"
	"ringcli/verbs/memory"
)

// Kind is where buffers come from.
type Kind string

// The values of --buffers.
const (
	Alloc   Kind = "alloc"   // Comm.Alloc
	Private Kind = "private" // a private mapping, registered as it is: peers cannot map it
	Mapping Kind = "mapping" // the same, moved to pages that can be shared
	File    Kind = "file"    // a file that is mapped, without a name
)

var kinds = []Kind{Alloc, Private, Mapping, File}

// Flag declares --buffers.
func Flag(fs *pflag.FlagSet) {
	command.ChoiceFlag(fs, "buffers", "kind", &kinds[0], kinds, func(text string) (Kind, error) {
		if !slices.Contains(kinds, Kind(text)) {
			return "", fmt.Errorf("expected one of %s", List())
		}
		return Kind(text), nil
	}, "where buffers come from: the library, or what is there already and is shared with the peers: "+List())
}

// List is all kinds, for people.
func List() string {
	words := make([]string, len(kinds))
	for i, k := range kinds {
		words[i] = string(k)
	}
	return strings.Join(words, ", ")
}

// Source makes buffers of a kind.
type Source struct {
	Comm *collective.Comm
	Kind Kind
	// NotShared is why a buffer was registered as it is, though it was to be shared; nil if
	// there was none.
	NotShared error

	memory []func() error // gives it back, after its buffer is freed
}

// New returns a buffer of n bytes, for Free.
func (s *Source) New(n uint64) (*collective.Buffer, error) {
	if s.Kind == Alloc || s.Kind == "" {
		return s.Comm.Alloc(n)
	}
	n = max(n, 1)
	addr, err := s.take(n)
	if err != nil {
		return nil, fmt.Errorf("buffers of kind %s: %d bytes: %w", s.Kind, n, err)
	}
	how, whole := collective.MayMove, n
	switch s.Kind {
	case Private:
		return s.Comm.Register(addr, n)
	case File:
		how = collective.InPlace
	default: // only whole pages move
		whole, _ = memory.RoundUp(n)
	}
	b, err := s.Comm.Share(addr, whole, how)
	if errors.Is(err, collective.ErrUsage) {
		s.NotShared = err
		return s.Comm.Register(addr, n)
	}
	return b, err
}

// take gets n bytes of memory such as a program has.
func (s *Source) take(n uint64) (addr uint64, err error) {
	var b *memory.Block
	if s.Kind == File {
		b, err = s.mapFile(n)
	} else {
		b, err = memory.Alloc(n)
	}
	if err != nil {
		return 0, err
	}
	s.memory = append(s.memory, b.Free)
	return b.Addr(), nil
}

// mapFile maps a new file that has lost its name, and is gone with the process. Its descriptor stays open, by
// which it is shared without privileges.
func (s *Source) mapFile(n uint64) (*memory.Block, error) {
	f, err := os.CreateTemp("", "ringcli-buffer")
	if err != nil {
		return nil, err
	}
	s.memory = append(s.memory, f.Close)
	if err := os.Remove(f.Name()); err != nil {
		return nil, err
	}
	size, _ := memory.RoundUp(n)
	if err := f.Truncate(int64(size)); err != nil {
		return nil, err
	}
	return memory.MapFile(int(f.Fd()), 0, n, true)
}

// Close gives the memory back, once the buffers are freed.
func (s *Source) Close() error {
	var errs []error
	for _, free := range s.memory {
		errs = append(errs, free())
	}
	s.memory = nil
	return errors.Join(errs...)
}
