package trace

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Kind is a registered kind of span or instant: its subsystem, its name and
// the names of its arguments. The high byte is the subsystem, which chooses
// the buffer, and the low byte counts from 1 within it.
type Kind uint16

func (k Kind) subsystem() Subsystem { return Subsystem(k >> 8) }

// The names of the kinds that readers of recordings know.
const (
	OperationName      = "operation"
	StepName           = "step"
	SegmentSendName    = "segment send"
	SegmentReceiveName = "segment receive"
	SegmentReduceName  = "segment reduce"
	WorkName           = "work" // of several segments, between two waits
	BringUpName        = "bring-up"
)

// maxArgs is how many arguments a record has room for.
const maxArgs = 4

// kindInfo is what a dump says of a kind.
type kindInfo struct {
	name string
	args []string // a "$" before a name: the argument is an interned text
}

// kinds are registered by package variables of the layers.
var kinds struct {
	sync.Mutex
	of [subsystems][]kindInfo // only ever appended to
}

// NewKind registers a kind, for a package variable. At most four arguments
// have a name; one that starts with "$" holds what Intern returned. The same
// kind may be registered twice. A kind that cannot be is a fault of the
// program, and panics.
func NewKind(s Subsystem, name string, args ...string) Kind {
	if int(s) >= subsystems || name == "" || len(args) > maxArgs {
		panic(fmt.Sprintf("trace: kind %q of subsystem %d with arguments %q: want a known subsystem, a name and at most %d arguments", name, s, args, maxArgs))
	}
	kinds.Lock()
	defer kinds.Unlock()
	known := kinds.of[s]
	i := slices.IndexFunc(known, func(k kindInfo) bool { return k.name == name })
	switch {
	case i < 0:
		i = len(known)
		kinds.of[s] = append(known, kindInfo{name, slices.Clone(args)})
	case !slices.Equal(known[i].args, args):
		panic(fmt.Sprintf("trace: kind %q of %s is registered with arguments %q, and again with %q", name, s, known[i].args, args))
	}
	if i >= 0xff {
		panic(fmt.Sprintf("trace: more than 255 kinds of %s", s))
	}
	return Kind(s)<<8 | Kind(i+1)
}

// maxTexts bounds the interned texts: they are names of operations, protocols
// and steps, of which there are dozens.
const maxTexts = 4096

// maxTextBytes is where a text to intern is cut.
const maxTextBytes = 256

// tooManyTexts is what a text reads as that found no room.
const tooManyTexts = "(no room for more texts)"

var texts = struct {
	sync.Mutex
	list  []string
	index map[string]uint64
}{list: []string{"", tooManyTexts}, index: map[string]uint64{"": 0, tooManyTexts: 1}}

// Intern returns the number that stands for a text in an argument whose name
// starts with "$". It takes a lock and is not for hot paths: intern before the
// loop. The table is bounded: 4096 texts of 256 bytes.
func Intern(text string) uint64 {
	if len(text) > maxTextBytes {
		text = strings.ToValidUTF8(text[:maxTextBytes], "")
	}
	texts.Lock()
	defer texts.Unlock()
	if n, ok := texts.index[text]; ok {
		return n
	}
	if len(texts.list) >= maxTexts {
		return texts.index[tooManyTexts]
	}
	n := uint64(len(texts.list))
	texts.list = append(texts.list, strings.Clone(text))
	texts.index[texts.list[n]] = n
	return n
}

// interned is the text of a number, for a dump.
func interned(n uint64) string {
	texts.Lock()
	defer texts.Unlock()
	if n >= uint64(len(texts.list)) {
		return fmt.Sprintf("(no interned text %d)", n)
	}
	return texts.list[n]
}
