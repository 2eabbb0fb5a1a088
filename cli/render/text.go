package render

import (
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"ringcli/configs"
)

// Records are values of one type as records.
func Records[T Record](list []T) []Record {
	records := make([]Record, len(list))
	for i, r := range list {
		records[i] = r
	}
	return records
}

// Folded breaks a text between words into lines of at most so many characters.
func Folded(text string, width int) []string {
	var lines []string
	line := ""
	for word := range strings.FieldsSeq(text) {
		switch {
		case line == "":
			line = word
		case len(line)+1+len(word) > width:
			lines = append(lines, line)
			line = "  " + word
		default:
			line += " " + word
		}
	}
	return append(lines, line)
}

// Tame replaces what would drive a terminal, as a text that a peer or a stranger has sent may
// hold. Tabs and ends of lines stay.
func Tame(text string) string {
	return strings.Map(func(r rune) rune {
		if r == '\n' || r == '\t' || unicode.IsPrint(r) {
			return r
		}
		return unicode.ReplacementChar
	}, text)
}

// Words prints each value of a list.
func Words[T any](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = fmt.Sprint(v)
	}
	return out
}

// Bytes writes a number of bytes.
func Bytes(n uint64) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}

// Wrong counts errors; nil: nothing was checked.
func Wrong(n *uint64) Cell {
	switch {
	case n == nil:
		return Cell{"N/A", Faint}
	case *n > 0:
		return Cell{strconv.FormatUint(*n, 10), Bad}
	}
	return Cell{"0", Good}
}

// Figure writes a time or a bandwidth in six characters where it can, with as
// many digits as say something.
func Figure(v float64) string {
	switch {
	case v >= 999.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case v >= 99.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	case v >= 9.9995:
		return strconv.FormatFloat(v, 'f', 2, 64)
	}
	return strconv.FormatFloat(v, 'f', 3, 64)
}

// Size writes a number of bytes that would take more than eight digits with the
// greatest unit (1024-based) that divides it: 1G, exactly.
func Size(n uint64) string {
	if n < 1e8 {
		return strconv.FormatUint(n, 10)
	}
	return configs.FormatSize(n)
}
