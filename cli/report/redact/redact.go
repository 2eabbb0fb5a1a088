package redact

import (
	"bytes"
	"encoding/json"
)

// Redactor removes secrets from texts. It is used by one goroutine at a time.
type Redactor struct {
	secrets *finder
	hints   *finder // marks what rules may find something: the bit of a rule is its place in Rules
	inNames *finder
	names   map[string]bool // whether a name is that of a secret
	removed map[string]int
	inKey   bool // a private key of several JSON strings has begun
}

// New returns a redactor that knows the ring's own secrets besides the rules.
func New(secrets [][]byte) *Redactor {
	r := &Redactor{secrets: secretsFinder(secrets), hints: &finder{}, inNames: &finder{}, names: map[string]bool{}}
	for i, rule := range Rules() {
		for _, form := range rule.forms {
			for _, hint := range form.hints {
				r.hints.add(string(hint), 1<<i)
			}
		}
	}
	for _, hint := range hintsOfNames() {
		r.hints.add(hint, nameMark)
		r.inNames.add(hint, nameMark)
	}
	r.hints.add("private", keyMark)
	r.hints.add("openvpn", keyMark)
	r.hints.add("putty", keyMark)
	return r
}

// Bits beside those of the rules.
const nameMark, keyMark = 1 << 30, 1 << 31

// mostPasses is how often a text is looked at again because something was removed. What a
// removal joins may be a secret to a second look; more than three are unheard of.
const mostPasses = 8

// Text returns what is left of a text, and how often each rule removed something. JSON stays
// JSON. A text that was redacted stays as it is.
func (r *Redactor) Text(b []byte) (clean []byte, removed map[string]int) {
	r.removed = map[string]int{}
	for range mostPasses {
		r.inKey = false
		next := r.redact(b, 0)
		if bytes.Equal(next, b) {
			return b, r.removed
		}
		b = next
	}
	return b, r.removed
}

// marker stands where a rule removed something.
func marker(rule string) string { return "[left out: " + rule + "]" }

func (r *Redactor) mark(rule string) string {
	r.count(rule, 1)
	return marker(rule)
}

func (r *Redactor) count(rule string, n int) {
	if n > 0 {
		r.removed[rule] += n
	}
}

// deepest is how far JSON in strings of JSON is read as such.
const deepest = 8

func (r *Redactor) redact(b []byte, depth int) []byte {
	if depth < deepest {
		if out, ok := r.documents(b, depth); ok {
			return out
		}
	}
	return r.text(b, depth)
}

// mayBeJSON tells JSON that may hold a secret by its first byte.
func mayBeJSON(b []byte) bool {
	b = bytes.TrimLeft(b, " \t\r\n")
	return len(b) > 1 && bytes.IndexByte([]byte(`{["-0123456789`), b[0]) >= 0
}

// documents redacts a text that is JSON throughout: one document, or several.
func (r *Redactor) documents(b []byte, depth int) ([]byte, bool) {
	if !mayBeJSON(b) {
		return nil, false
	}
	type document struct{ from, to int }
	var list []document
	for d := json.NewDecoder(bytes.NewReader(b)); d.More(); {
		var raw json.RawMessage
		if d.Decode(&raw) != nil {
			return nil, false
		}
		to := int(d.InputOffset())
		list = append(list, document{to - len(raw), to})
	}
	if len(bytes.TrimSpace(b[list[len(list)-1].to:])) > 0 { // d.More is false before a bracket that closes nothing
		return nil, false
	}
	out := make([]byte, 0, len(b))
	done := 0
	for _, d := range list {
		out = append(out, b[done:d.from]...)
		out = append(out, r.document(b[d.from:d.to], depth)...)
		done = d.to
	}
	return append(out, b[done:]...), true
}

func (r *Redactor) isName(name []byte) bool {
	named, known := r.names[string(name)]
	if !known {
		named = IsName(name)
		if len(r.names) < 1<<12 && len(name) < 100 {
			r.names[string(name)] = named
		}
	}
	return named
}
