package render

import (
	"fmt"
	"strings"
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
