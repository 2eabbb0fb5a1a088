package redact

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
)

// node is a value of a JSON document, or the name of a member, before which it stands.
type node struct {
	from, to, next int32 // its bytes, and the node after it and all that is in it
	kind           byte  // its first byte
}

// nodes lists those of valid JSON, in order.
func nodes(b []byte) (list []node) {
	var open []int
	for i := 0; i < len(b); {
		from := i
		switch c := b[i]; c {
		case ' ', '\t', '\r', '\n', ',', ':':
			i++
			continue
		case '}', ']':
			i++
			last := open[len(open)-1]
			open = open[:len(open)-1]
			list[last].to, list[last].next = int32(i), int32(len(list))
			continue
		case '{', '[':
			i++
			open = append(open, len(list))
		case '"':
			for i++; b[i] != '"'; i++ {
				if b[i] == '\\' {
					i++
				}
			}
			i++
		default:
			for i < len(b) && !strings.ContainsRune(" \t\r\n,:{}[]", rune(b[i])) {
				i++
			}
		}
		list = append(list, node{int32(from), int32(i), int32(len(list) + 1), b[from]})
	}
	return list
}

// document is JSON that is redacted by offsets: what stays, stays byte for byte.
type document struct {
	*Redactor
	in    []byte
	nodes []node
	depth int
	out   []byte
	done  int // bytes of in that are in out, or replaced
}

func (r *Redactor) document(b []byte, depth int) []byte {
	d := document{Redactor: r, in: b, nodes: nodes(b), depth: depth}
	d.value(0, "")
	out := b
	if d.done > 0 {
		out = append(d.out, b[d.done:]...)
	}
	// A secret may span several values.
	clean, n := r.secrets.replace(out, marker(tokenRule))
	r.count(tokenRule, n)
	if n > 0 && !json.Valid(clean) {
		clean = quoted(marker(tokenRule))
	}
	return clean
}

func (d *document) raw(n node) []byte { return d.in[n.from:n.to] }

// decoded is the text of a string.
func (d *document) decoded(n node) []byte {
	raw := d.raw(n)
	if bytes.IndexByte(raw, '\\') < 0 {
		return raw[1 : len(raw)-1]
	}
	var s string
	_ = json.Unmarshal(raw, &s) // it is valid
	return []byte(s)
}

func quoted(text string) []byte {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	_ = e.Encode(text) // a string never fails
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}

func (d *document) replace(n node, text string) {
	d.out = append(append(d.out, d.in[d.done:n.from]...), quoted(text)...)
	d.done = int(n.to)
}

// value redacts a value. A rule is given if a name says that the value is a secret.
func (d *document) value(k int32, rule string) {
	n := d.nodes[k]
	switch {
	case rule != "" && !d.harmless(n):
		d.replace(n, d.mark(rule))
	case n.kind == '{':
		d.object(k)
	case n.kind == '[':
		d.array(k)
	case n.kind == '"':
		d.string(n)
	default:
		if _, found := d.secrets.replace(d.raw(n), ""); found > 0 {
			d.replace(n, d.mark(tokenRule))
		}
	}
}

func (d *document) harmless(n node) bool {
	if n.kind == '"' {
		text := d.decoded(n)
		return len(text) == 0 || harmless().Match(text)
	}
	return harmless().Match(d.raw(n))
}

func (d *document) object(k int32) {
	end := d.nodes[k].next
	pair, secret := false, false // it names a secret beside its value, or is a Secret of Kubernetes
	for m := k + 1; m < end; m = d.nodes[m+1].next {
		if value := d.nodes[m+1]; value.kind == '"' {
			name, text := d.decoded(d.nodes[m]), d.decoded(value)
			pair = pair || isPairName().Match(name) && d.isName(text)
			secret = secret || string(name) == "kind" && string(text) == "Secret"
		}
	}
	for m := k + 1; m < end; m = d.nodes[m+1].next {
		name, rule := d.decoded(d.nodes[m]), ""
		switch {
		case d.isName(name), secret && string(name) == "data":
			rule = "name"
		case pair && pairValue().Match(name):
			rule = "pair"
		}
		d.string(d.nodes[m])
		d.value(m+1, rule)
	}
}

func (d *document) array(k int32) {
	end := d.nodes[k].next
	var before []byte // up to four arguments, of what may be a command line
	for m := k + 1; m < end; m = d.nodes[m].next {
		n := d.nodes[m]
		if n.kind != '"' {
			before = nil
			d.value(m, "")
			continue
		}
		text := d.decoded(n)
		pairOf := m == k+2 && n.next == end && d.nodes[k+1].kind == '"' && d.isName(d.decoded(d.nodes[k+1]))
		at, rule := d.argument(before, text)
		if name, _, is := bytes.Cut(text, []byte("=")); is && isVariable().Match(name) && d.isName(name) { // all that follows is its value, whatever it looks like
			at, rule = len(name)+1, "name"
		}
		switch {
		case pairOf && !harmless().Match(text):
			d.replace(n, d.mark("pair"))
		case at >= 0 && !harmless().Match(text[at:]):
			d.replace(n, string(text[:at])+d.mark(rule))
		default:
			d.string(n)
		}
		before = append(append(before, text...), ' ')
		if words := bytes.Fields(before); len(words) > 4 {
			before = append(bytes.Join(words[len(words)-4:], []byte(" ")), ' ')
		}
	}
}

// argument is where a value begins in an argument that follows others, -1 if in none.
func (d *document) argument(before, text []byte) (at int, rule string) {
	last := bytes.TrimSuffix(before[bytes.LastIndexByte(bytes.TrimSpace(before), ' ')+1:], []byte(" "))
	if name := bytes.TrimLeft(last, "-"); len(name) < len(last) && d.isName(name) && !bytes.HasPrefix(text, []byte("--")) {
		return 0, "option"
	}
	line := append(bytes.Clone(before), text...)
	if len(before) == 0 || len(line) > 1<<12 {
		return -1, ""
	}
	folded := fold(line)
	for _, f := range ruleOf("command").forms {
		if !slices.ContainsFunc(f.hints, func(hint []byte) bool { return bytes.Contains(folded, hint) }) {
			continue
		}
		if match := f.found.FindIndex(line); match != nil && match[1] >= len(before) && match[1] < len(line) {
			return match[1] - len(before), "command"
		}
	}
	return -1, ""
}

// string redacts a string, which may be a text of any kind.
func (d *document) string(n node) {
	text := d.decoded(n)
	if d.inKey {
		d.inKey = !keyEnd().Match(text)
		if keyBody().Match(text) || !d.inKey {
			d.replace(n, d.mark(keyRule))
			return
		}
	}
	if begin := keyBegin().FindIndex(text); begin != nil && !keyEnd().Match(text[begin[0]:]) {
		d.inKey = true
	}
	if clean := d.redact(text, d.depth+1); !bytes.Equal(clean, text) {
		d.replace(n, string(clean))
	}
}
