package redact

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// finder finds words in one pass over a text, whatever their case. It passes over white space
// if spaced is set: base64 is wrapped, and hexadecimal is printed in groups.
type finder struct {
	spaced bool
	words  []word
	begin  [1 << 16]int32 // the last word with these first two bytes, counted from 1
}

type word struct {
	text string
	mark uint32
	next int32 // the word before it with the same first two bytes
}

var lower = func() (table [256]byte) {
	for i := range table {
		table[i] = byte(i)
		if i >= 'A' && i <= 'Z' {
			table[i] += 'a' - 'A'
		}
	}
	return table
}()

func isSpace(c byte) bool { return c == ' ' || c == '\n' || c == '\t' || c == '\r' }

// add takes words of two bytes or more, in lower case.
func (f *finder) add(text string, mark uint32) {
	at := int(text[0])<<8 | int(text[1])
	f.words = append(f.words, word{text, mark, f.begin[at]})
	f.begin[at] = int32(len(f.words))
}

// marks are those of all words in the text.
func (f *finder) marks(b []byte) (marks uint32) {
	for i := 1; i < len(b); i++ {
		for k := f.begin[int(lower[b[i-1]])<<8|int(lower[b[i]])]; k > 0; k = f.words[k-1].next {
			if w := &f.words[k-1]; marks&w.mark != w.mark && f.end(b, i-1, w.text) > 0 {
				marks |= w.mark
			}
		}
	}
	return marks
}

// longest is where the longest word ends that begins at i and goes on at next; 0 if none does.
func (f *finder) longest(b []byte, i, next int) (end int) {
	for k := f.begin[int(lower[b[i]])<<8|int(lower[b[next]])]; k > 0; k = f.words[k-1].next {
		end = max(end, f.end(b, i, f.words[k-1].text))
	}
	return end
}

// first is where the first word is from i on; its end is 0 if there is none.
func (f *finder) first(b []byte, i int) (from, end int) {
	for ; i+1 < len(b); i++ {
		if end := f.longest(b, i, i+1); end > 0 {
			return i, end
		}
	}
	return 0, 0
}

// end is where a word that begins at i ends, 0 if it does not begin there.
func (f *finder) end(b []byte, i int, text string) int {
	for k := 0; k < len(text); i++ {
		switch {
		case i == len(b):
			return 0
		case lower[b[i]] == text[k]:
			k++
		case !f.spaced || !isSpace(b[i]):
			return 0
		}
	}
	return i
}

// replace puts a marker where words stand, and counts them.
func (f *finder) replace(b []byte, marker string) (out []byte, n int) {
	done, before := 0, 0
	for i := 1; i < len(b); i++ {
		if f.spaced && isSpace(b[i]) {
			continue
		}
		longest := f.longest(b, before, i)
		if before < done {
			longest = 0
		}
		if longest > 0 {
			out, done, n = append(append(out, b[done:before]...), marker...), longest, n+1
		}
		before = i
	}
	if n == 0 {
		return b, 0
	}
	return append(out, b[done:]...), n
}

// shortest is what may be searched for as a secret: less is in many a word. No ring takes a
// secret as short.
const shortest = 8

// secretsFinder finds secrets in each form in which they may be written.
func secretsFinder(secrets [][]byte) *finder {
	f := &finder{spaced: true}
	seen := map[string]bool{}
	for _, secret := range secrets {
		if len(secret) < shortest {
			continue
		}
		for _, s := range []string{string(secret), strings.ToLower(string(secret)), strings.ToUpper(string(secret))} {
			for _, text := range written(s) {
				text = string(slices.DeleteFunc(fold([]byte(text)), isSpace))
				if len(text) >= shortest-2 && !seen[text] {
					seen[text] = true
					f.add(text, 1)
				}
			}
		}
	}
	return f
}

func fold(b []byte) []byte {
	b = slices.Clone(b)
	for i, c := range b {
		b[i] = lower[c]
	}
	return b
}

// written are the forms of a text.
func written(s string) []string {
	var plain strings.Builder
	html, _ := json.Marshal(s) // a string never fails
	e := json.NewEncoder(&plain)
	e.SetEscapeHTML(false)
	_ = e.Encode(s)
	inQuotes := func(s string) string { return strings.Trim(s, "\n")[1 : len(strings.Trim(s, "\n"))-1] }
	h := hex.EncodeToString([]byte(s))
	percent := ""
	for i := 0; i < len(h); i += 2 {
		percent += "%" + h[i:i+2]
	}
	list := []string{s, inQuotes(string(html)), inQuotes(plain.String()), inQuotes(strconv.Quote(s)), url.QueryEscape(s), url.PathEscape(s), percent, h}
	// Within a longer text, base64 depends on where in a group of three bytes the secret begins;
	// of its first and last digit, part belongs to the neighbours.
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		for before := range 3 {
			digits := encoding.EncodeToString(append(make([]byte, before), s...))
			from, to := (before*8+5)/6, (before+len(s))*8/6
			list = append(list, digits[from:to])
		}
	}
	return list
}
