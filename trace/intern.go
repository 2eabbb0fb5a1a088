package trace

import (
	"fmt"
	"strings"
	"sync"
)

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
