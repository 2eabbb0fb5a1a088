package redact

import (
	"bytes"
	"encoding/json"
	"slices"
)

// text redacts what is no JSON, or JSON on some of its lines.
type text struct {
	*Redactor
	in       []byte
	depth    int
	ofSecret bool         // it has a Secret of Kubernetes
	pairs    map[int]bool // where lines begin that have a secret's name as a value
}

func (r *Redactor) text(b []byte, depth int) []byte {
	if _, n := r.secrets.replace(b, ""); n > 0 {
		// A line of JSON stays one: it is redacted first.
		var out []byte
		for line := range bytes.Lines(b) {
			if _, n := r.secrets.replace(line, ""); n > 0 && isJSON(line) {
				line = r.document(line, depth+1)
			}
			out = append(out, line...)
		}
		b, n = r.secrets.replace(out, marker(tokenRule))
		r.count(tokenRule, n)
	}
	marks := r.hints.marks(b)
	if marks == 0 && !bytes.ContainsAny(b, "{[") {
		return b
	}
	t := text{Redactor: r, in: b, depth: depth, ofSecret: ofSecret().Match(b)}
	out := make([]byte, 0, len(b))
	for at := 0; at < len(b); {
		end := lineEnd(b, at)
		line := b[at:end]
		switch marks := r.hints.marks(line); {
		case depth < deepest && isJSON(line):
			out = append(out, r.document(line, depth+1)...)
		case marks == 0:
			out = append(out, line...)
		case marks&keyMark != 0 && keyBegin().Match(line):
			begin := keyBegin().FindIndex(line)[0]
			out = append(append(out, line[:begin]...), r.mark(keyRule)...)
			if shut := keyEnd().FindIndex(b[at+begin:]); shut != nil {
				end = at + begin + shut[1]
			} else {
				end = len(b)
			}
		default:
			clean, more := t.line(at, end, marks)
			out = append(out, clean...)
			end += more
		}
		at = end
	}
	return out
}

func isJSON(line []byte) bool { return mayBeJSON(line) && json.Valid(line) }

// lineEnd is where a line ends, with what ends it.
func lineEnd(b []byte, at int) int {
	if n := bytes.IndexByte(b[at:], '\n'); n >= 0 {
		return at + n + 1
	}
	return len(b)
}

// line redacts a line, and returns how many bytes after it belong to its values.
func (t *text) line(at, end int, marks uint32) (line []byte, more int) {
	line = bytes.TrimRight(t.in[at:end], "\r\n")
	ending := t.in[at+len(line) : end]
	named := false
	for i, r := range Rules() {
		n := 0
		switch {
		case r.named && !named: // all of them at once
			named = true
			if marks&nameMark != 0 || t.ofSecret {
				line, n = t.named(line, end)
			}
		case r.named || marks&(1<<i) == 0 || r.pair && !t.inPair(at, end):
		default:
			folded := fold(line)
			for _, f := range r.forms {
				has := func(hint []byte) bool { return bytes.Contains(folded, hint) }
				if m := 0; !slices.ContainsFunc(f.hints, has) {
				} else if r.whole {
					line = t.whole(r, f, line)
				} else {
					line, m = t.values(r, f, line, end)
					n = max(n, m)
				}
			}
		}
		more = max(more, n)
	}
	return append(line[:len(line):len(line)], ending...), more
}

// whole replaces what is found, but for its group.
func (t *text) whole(r *Rule, f form, line []byte) []byte {
	var out []byte
	done := 0
	for _, match := range f.found.FindAllSubmatchIndex(line, -1) {
		from, to := match[0], match[1]
		for g := 2; g < len(match); g += 2 {
			from = max(from, match[g+1])
		}
		if line[to-1] == '@' {
			to--
		}
		if from < to && !bytes.HasPrefix(line[from:], []byte("[left out: ")) && !r.isHarmless(line[from:to]) {
			out, done = append(append(out, line[done:from]...), t.mark(r.Name)...), to
		}
	}
	return append(out, line[done:]...)
}

// mostInLine is how many values of a form are told apart in a line; then the rest of it goes.
const mostInLine = 32

// values replaces the values that follow what is found in a line.
func (t *text) values(r *Rule, f form, line []byte, end int) (out []byte, more int) {
	done := 0
	for n := 0; ; n++ {
		match := f.found.FindIndex(line[done:])
		if match == nil {
			return append(out, line[done:]...), more
		}
		begin, from := done+match[0], done+match[1]
		tag := line[from-1] == '>' && bytes.IndexByte(line[max(0, begin-1):begin+1], '<') >= 0
		v := t.valueAt(line[from:], end, indentOf(line), tag)
		if n == mostInLine {
			v = value{0, len(line) - from, v.more}
		}
		next := from // where to go on, if nothing is removed
		if tag {
			next = begin + 1
		}
		if value := line[from+v.from : from+v.to]; !r.isNone(value, v.more) {
			out, next, more = append(append(out, line[done:from+v.from]...), t.mark(r.Name)...), from+v.to, max(more, v.more)
		} else {
			out = append(out, line[done:next]...)
		}
		done = next
	}
}

// named replaces the values of the names of secrets in a line.
func (t *text) named(line []byte, end int) (out []byte, more int) {
	done, indent := 0, indentOf(line)
	replace := func(r *Rule, at int, tag bool, name []byte) (next int) {
		v := t.valueAt(line[at:], end, indent, tag)
		value := line[at+v.from : at+v.to]
		isDir := done == 0 && (string(name) == "PWD" || string(name) == "OLDPWD") && workingDir().Match(value)
		if r.isNone(value, v.more) || isDir {
			return at
		}
		out, done, more = append(append(out, line[done:at+v.from]...), t.mark(r.Name)...), at+v.to, max(more, v.more)
		return done
	}
	if data := dataOf().FindIndex(line); t.ofSecret && data != nil {
		replace(ruleOf("name"), data[1], false, nil)
	}
	for at := done; ; {
		from, to := t.inNames.first(line, at)
		if to == 0 {
			return append(out, line[done:]...), more
		}
		for from > at && inName[line[from-1]] {
			from--
		}
		for line[from] == '-' {
			from++
		}
		for to < len(line) && inName[line[to]] {
			to++
		}
		at = to
		if name := line[from:to]; t.isName(name) {
			if r, value, tag := t.around(line, from, to); r != nil {
				at = replace(r, value, tag, name)
			}
		}
	}
}

// inName are the bytes of names.
var inName = func() (is [256]bool) {
	for _, c := range "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.$-" {
		is[c] = true
	}
	return is
}()

// mostAround is how far a form looks around a name.
const mostAround = 64

// around is the rule that says where the value of a name begins, nil if the name has none.
func (t *text) around(line []byte, from, to int) (r *Rule, value int, tag bool) {
	before, after := line[max(0, from-mostAround):from], line[to:min(len(line), to+mostAround)]
	for _, r := range Rules() {
		if !r.named {
			continue
		}
		for _, f := range r.forms {
			is := f.after.FindIndex(after)
			if is == nil || !f.before.Match(before) {
				continue
			}
			between := bytes.TrimSpace(after[:is[1]])
			switch {
			case bytes.Equal(between, []byte("::")): // of a symbol
			case string(line[from:to]) == "PASS" && !bytes.Contains(between, []byte("=")): // a verdict
			case bytes.HasSuffix(before, []byte("/")) && bytes.HasPrefix(between, []byte(":")): // a file's name
			default:
				return r, to + is[1], bytes.HasSuffix(before, []byte("<")) || bytes.HasSuffix(between, []byte(">")) && bytes.IndexByte(before, '<') >= 0 && bytes.HasSuffix(before, []byte(":"))
			}
			return nil, 0, false
		}
	}
	return nil, 0, false
}

func ruleOf(name string) *Rule {
	list := Rules()
	return list[slices.IndexFunc(list, func(r *Rule) bool { return r.Name == name })]
}

// isNone reports whether a value, with what the next lines have of it, is no secret. An empty one and
// a sign may stand for those lines.
func (r *Rule) isNone(value []byte, more int) bool {
	return more == 0 && len(value) == 0 || (more == 0 || len(value) > 1) && r.isHarmless(value)
}

// longest is what may be harmless: it has no end if it is cut off.
const longest = 128

// isHarmless reports whether a value tells no secret.
func (r *Rule) isHarmless(value []byte) bool {
	value = value[:min(len(value), longest)]
	return r.not != nil && r.not.Match(value) || r.Name == "option" && bytes.HasPrefix(value, []byte("--")) ||
		harmless().Match(bytes.TrimRight(value, " \t,;"))
}

// inPair reports whether a line of t.in, or one beside it that is indented as it is, has the
// name of a secret as the value of a member such as name or key.
func (t *text) inPair(at, end int) bool {
	if t.pairs == nil {
		t.pairs = map[int]bool{}
		for from := 0; from < len(t.in); {
			to := lineEnd(t.in, from)
			if t.namesInPair(t.in[from:to]) {
				t.pairs[from] = true
			}
			from = to
		}
	}
	line := t.in[at:end]
	switch {
	case len(t.pairs) == 0:
		return false
	case t.pairs[at]:
		return true
	}
	column := indentOf(line)
	if spaces(line) == column { // else it is the first of an item of a list
		for from, n := at, 0; from > 0 && n < mostBeside; n++ {
			to := from
			from = bytes.LastIndexByte(t.in[:to-1], '\n') + 1
			line := t.in[from:to]
			if spaces(line) <= column && indentOf(line) == column && t.pairs[from] {
				return true
			}
			if spaces(line) < column || len(line) > longBeside {
				if isBlock := bytes.HasSuffix(bytes.TrimSpace(line), []byte("{")); isBlock && t.pairs[from] { // of HCL
					return true
				}
				break
			}
		}
	}
	for from, n := end, 0; from < len(t.in) && n < mostBeside; n++ {
		to := lineEnd(t.in, from)
		line := t.in[from:to]
		if spaces(line) < column || len(line) > longBeside {
			break
		}
		if spaces(line) == column && t.pairs[from] {
			return true
		}
		from = to
	}
	return false
}

// How far the members of a pair stand apart, in lines, and how long these lines are.
const mostBeside, longBeside = 16, 1 << 10

func (t *text) namesInPair(line []byte) bool {
	if len(line) > 0 && (line[0] == '{' || line[0] == '[') || t.hints.marks(line)&nameMark == 0 { // an object is a whole
		return false
	}
	for _, match := range pairName().FindAllSubmatch(bytes.TrimRight(line, "\r\n"), -1) {
		if t.isName(bytes.ReplaceAll(match[1], []byte("/"), []byte("."))) {
			return true
		}
	}
	return false
}

// indentOf is where a line begins, or the item of a list that it begins.
func indentOf(line []byte) int {
	at := spaces(line)
	for rest := line[at:]; len(rest) > 1 && rest[0] == '-' && (rest[1] == ' ' || rest[1] == '\t'); rest = line[at:] {
		at += 1 + spaces(rest[1:])
	}
	return at
}

func spaces(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " \t")) }

// value is where a value stands in the rest of a line, and how many bytes after the line are
// its.
type value struct{ from, to, more int }

// mostLines is how many lines a value in quotes or brackets may have.
const mostLines = 128

// valueAt finds where the value ends that begins with the rest of a line, which ends at end in t.in. A
// value whose end is in doubt has the rest of the line, and the lines that are indented deeper.
func (t *text) valueAt(rest []byte, end, indent int, tag bool) value {
	next := t.in[end:]
	if tag {
		return element(rest, next)
	}
	lead := spaces(rest)
	whole := value{lead, len(rest), 0}
	body := rest[lead:]
	if quote := quotes().Find(body[:min(len(body), 64)]); len(quote) > 0 {
		if shut := closing(body, quote); shut >= 0 {
			if isClosed(body[shut+len(quote):]) {
				return value{lead + len(quote), lead + shut, 0}
			}
			return whole
		}
		if lines := until(next, func(line []byte) bool { return bytes.Contains(line, quote) }); lines > 0 {
			whole.more = lines
			return whole
		}
	}
	if len(body) > 0 && bytes.IndexByte([]byte("[{("), body[0]) >= 0 || bytes.HasPrefix(body, []byte("$(")) {
		open := brackets(body)
		if open > 0 {
			if lines := until(next, func(line []byte) bool { open += brackets(line); return open <= 0 }); lines > 0 {
				whole.more = lines
				return whole
			}
		}
	}
	whole.more = continued(body, next, indent)
	return whole
}

// closing is where a quote closes that a text begins with, -1 if it does not.
func closing(body, quote []byte) int {
	escapes := len(quote) == 1 && quote[0] != '\''
	for i := len(quote); i+len(quote) <= len(body); i++ {
		switch {
		case escapes && body[i] == '\\':
			i++
		case bytes.HasPrefix(body[i:], quote):
			return i
		}
	}
	return -1
}

// isClosed reports whether what follows a quote that closes is beyond the value. Quotes one after
// the other are one word to a shell and one text to C.
func isClosed(after []byte) bool {
	trimmed := bytes.TrimLeft(after, " \t")
	switch {
	case len(trimmed) == 0:
		return true
	case len(trimmed) < len(after):
		return bytes.IndexByte([]byte("\"'`+.\\&|$"), trimmed[0]) < 0
	default:
		return bytes.IndexByte([]byte(",;)}]>/:"), after[0]) >= 0
	}
}

// until is how many bytes of lines there are up to the first that is the last; 0 if none is.
func until(next []byte, isLast func(line []byte) bool) int {
	at := 0
	for n := 0; at < len(next) && n < mostLines; n++ {
		end := lineEnd(next, at)
		if isLast(next[at:end]) {
			return end
		}
		at = end
	}
	return 0
}

// brackets counts those that open less those that close.
func brackets(line []byte) (open int) {
	for _, c := range line {
		switch c {
		case '[', '{', '(':
			open++
		case ']', '}', ')':
			open--
		}
	}
	return open
}

// continued is how many bytes of the next lines go on with an unquoted value.
func continued(body, next []byte, indent int) int {
	at := 0
	for line := body; bytes.HasSuffix(bytes.TrimRight(line, " \t\r\n"), []byte(`\`)) && at < len(next); {
		end := lineEnd(next, at)
		line, at = next[at:end], end
	}
	empty := len(bytes.TrimRight(body, " \t\r\\")) == 0
	for from := at; from < len(next); {
		end := lineEnd(next, from)
		line := bytes.TrimRight(next[from:end], " \t\r\n")
		isItem := empty && spaces(line) == indent && bytes.HasPrefix(line[spaces(line):], []byte("- "))
		switch {
		case len(line) == 0: // it belongs to the value if the line after it does
		case spaces(line) > indent, isItem:
			at = end
		case empty && at == 0 && single().Match(line[spaces(line):]) && !keyLine().Match(line[spaces(line):]):
			return end
		default:
			return at
		}
		from = end
	}
	return at
}

// element is the text of an XML element whose tag was opened.
func element(rest, next []byte) value {
	if begin := []byte("<![CDATA["); bytes.HasPrefix(rest, begin) {
		if shut := bytes.Index(rest, []byte("]]>")); shut >= 0 {
			return value{len(begin), shut, 0}
		}
	}
	switch shut := bytes.IndexByte(rest, '<'); {
	case shut > 0, bytes.HasPrefix(rest, []byte("</")):
		return value{0, shut, 0}
	case shut == 0 && bytes.Contains(rest, []byte("</")): // elements, in doubt all of them
		return value{0, len(rest), 0}
	}
	return value{0, len(rest), until(next, func(line []byte) bool { return bytes.Contains(line, []byte("</")) })}
}
