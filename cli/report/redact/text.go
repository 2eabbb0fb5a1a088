package redact

import (
	"bytes"
	"encoding/json"
)

// text redacts what is no JSON, or JSON on some of its lines.
type text struct {
	*Redactor
	in       []byte
	depth    int
	ofSecret bool // it has a Secret of Kubernetes
}

func (r *Redactor) text(b []byte, depth int) []byte {
	if clean, n := r.secrets.replace(b, Marker(tokenRule)); n > 0 {
		// A line of JSON stays one: it is redacted first.
		var out []byte
		for line := range bytes.Lines(b) {
			if _, n := r.secrets.replace(line, nil); n > 0 && isJSON(line) {
				line = r.document(line, depth+1)
			}
			out = append(out, line...)
		}
		clean, n = r.secrets.replace(out, Marker(tokenRule))
		r.count(tokenRule, n)
		b = clean
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
	if t.ofSecret {
		marks = ^uint32(0)
	}
	ending := t.in[at+len(line) : end]
	for i, r := range Rules() {
		switch {
		case marks&(1<<i) == 0 || r.found == nil:
		case r.whole:
			line = t.wholes(r, line)
		default:
			clean, n := t.values(r, line, at, end)
			line, more = clean, max(more, n)
		}
	}
	return append(line[:len(line):len(line)], ending...), more
}

// wholes replaces what matches, but for its group.
func (t *text) wholes(r *Rule, line []byte) []byte {
	var out []byte
	done := 0
	for _, match := range r.found.FindAllSubmatchIndex(line, -1) {
		from, to := match[0], match[1]
		for g := 2; g < len(match); g += 2 {
			from = max(from, match[g+1])
		}
		if line[to-1] == '@' {
			to--
		}
		if value := line[from:to]; from < to && !bytes.HasPrefix(line[from:], []byte("[left out: ")) && !r.isHarmless(value) {
			out, done = append(append(out, line[done:from]...), t.mark(r.Name)...), to
		}
	}
	return append(out, line[done:]...)
}

// names reports whether a match is about a secret, as far as its group says.
func (r *Rule) names(all *Redactor, line []byte, match []int) bool {
	if !r.named {
		return true
	}
	name, between := r.group(line, match)
	switch {
	case string(between) == "::": // of a symbol
		return false
	case string(name) == "PASS" && !bytes.ContainsRune(between, '='): // a verdict
		return false
	case match[0] > 0 && line[match[0]-1] == '/' && bytes.HasPrefix(between, []byte(":")) && bytes.IndexByte(name, ' ') < 0: // a file's name
		return false
	}
	return all.isName(name)
}

// group is the group of a match, and what follows it there.
func (r *Rule) group(line []byte, match []int) (group, after []byte) {
	for g := 2; g < len(match); g += 2 {
		if match[g] >= 0 {
			return line[match[g]:match[g+1]], line[match[g+1]:match[1]]
		}
	}
	return nil, nil
}

// values replaces the values that follow matches in a line of t.in.
func (t *text) values(r *Rule, line []byte, at, end int) (out []byte, more int) {
	if r.pair && (!r.found.Match(line) || !t.inPair(at, end)) {
		return line, 0
	}
	done := 0
	for done == 0 || done <= len(line) && !r.once {
		match := r.found.FindSubmatchIndex(line[done:])
		if match == nil {
			break
		}
		for g := range match {
			if match[g] >= 0 {
				match[g] += done
			}
		}
		name, between := r.group(line, match)
		next := match[1] // where to go on, if nothing is removed
		if tag := isTag(line, match); r.names(t.Redactor, line, match) || t.ofSecret && isData(name) {
			v := t.valueAt(line[match[1]:], end, len(indents().Find(line)), tag)
			from, to := match[1]+v.from, match[1]+v.to
			if value := line[from:to]; !(v.more == 0 && len(value) == 0 || r.isHarmless(value) || isWorkingDir(name, line, match[0]) && workingDir().Match(value)) {
				out, done, more = append(append(out, line[done:from]...), t.mark(r.Name)...), to, max(more, v.more)
				continue
			}
			if tag {
				next = match[0] + 1
			}
		} else if r.named {
			next = max(match[0]+1, match[1]-len(between))
		}
		out, done = append(out, line[done:next]...), next
	}
	return append(out, line[min(done, len(line)):]...), more
}

// isHarmless reports whether a value tells no secret.
func (r *Rule) isHarmless(value []byte) bool {
	return harmless().Match(bytes.TrimRight(value, " \t,;")) || r.not != nil && r.not.Match(value) ||
		r.Name == "option" && bytes.HasPrefix(value, []byte("--"))
}

// isData knows what a Secret of Kubernetes has its secrets in.
func isData(name []byte) bool { return string(name) == "data" || string(name) == "stringData" }

// isTag reports whether a match is the tag of an XML element, or ends with one.
func isTag(line []byte, match []int) bool {
	return line[match[1]-1] == '>' && bytes.IndexByte(line[max(0, match[0]-1):match[0]+1], '<') >= 0
}

// isWorkingDir knows PWD and OLDPWD, which are no passwords in an environment.
func isWorkingDir(name, line []byte, at int) bool {
	name = name[bytes.LastIndexByte(name, ' ')+1:]
	return (string(name) == "PWD" || string(name) == "OLDPWD") && len(bytes.TrimLeft(line[:at], " \t\"'")) == 0
}

// inPair reports whether a line of t.in, or one beside it that is indented as it is, has the
// name of a secret as the value of a member such as name or key.
func (t *text) inPair(at, end int) bool {
	line := t.in[at:end]
	if t.namesInPair(line) {
		return true
	}
	column := len(indents().Find(line))
	if spaces(line) == column { // else it is the first of an item of a list
		for from, n := at, 0; from > 0 && n < mostBeside; n++ {
			to := from
			from = bytes.LastIndexByte(t.in[:to-1], '\n') + 1
			line := t.in[from:to]
			if spaces(line) <= column && len(indents().Find(line)) == column && t.namesInPair(line) {
				return true
			}
			if spaces(line) < column || len(line) > longBeside {
				if isBlock := bytes.HasSuffix(bytes.TrimSpace(line), []byte("{")); isBlock && t.namesInPair(line) { // of HCL
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
		if spaces(line) == column && t.namesInPair(line) {
			return true
		}
		from = to
	}
	return false
}

// How far the members of a pair stand apart, in lines, and how long these lines are.
const mostBeside, longBeside = 16, 1 << 10

func (t *text) namesInPair(line []byte) bool {
	if mayBeJSON(line) && line[0] != '"' || t.hints.marks(line)&t.named == 0 { // an object is a whole
		return false
	}
	for _, match := range pairName().FindAllSubmatch(bytes.TrimRight(line, "\r\n"), -1) {
		if t.isName(bytes.ReplaceAll(match[1], []byte("/"), []byte("."))) {
			return true
		}
	}
	return false
}

func spaces(line []byte) int { return len(line) - len(bytes.TrimLeft(line, " \t")) }

// value is where a value stands in the rest of a line, and how many bytes after the line are
// its.
type value struct{ from, to, more int }

// mostLines is how many lines a value in quotes or brackets may have.
const mostLines = 256

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
	if quote := quotes().Find(body); len(quote) > 0 {
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
