package codes

import (
	"errors"
	"slices"
	"strings"
)

// Parts are what an error says, apart: the result in one line, what to do, and what was
// observed. Fix and Evidence may be empty.
type Parts struct {
	Result   string
	Fix      string
	Evidence []string
}

// String is all of it in one line.
func (p Parts) String() string {
	text := p.Result
	if p.Fix != "" {
		text += ": " + p.Fix
	}
	if len(p.Evidence) > 0 {
		text += " (" + strings.Join(p.Evidence, "; ") + ")"
	}
	return text
}

// Split returns the parts of the outermost error that has some; what the errors that wrap it
// say, as the step or the operation that it ended, is evidence. Without one the whole text is
// the result.
func Split(err error) Parts {
	text := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return r == '\n' || r == '\r' }), "; ")
	var told interface {
		error
		Parts() Parts
	}
	if !errors.As(err, &told) {
		return Parts{Result: text}
	}
	p := told.Parts()
	before, after, found := strings.Cut(text, told.Error())
	if !found { // a line break, or another text of whoever wraps it
		return Parts{Result: text}
	}
	p.Evidence = slices.Clone(p.Evidence)
	if before = strings.TrimRight(before, ": "); before != "" {
		p.Evidence = append(p.Evidence, "it ended "+before)
	}
	if after = strings.TrimLeft(after, ";:, "); after != "" {
		p.Evidence = append(p.Evidence, after)
	}
	return p
}
