package cli

import (
	"fmt"
	"strings"

	"ringcli/cli/render"
)

// asRecords are values of one type as records.
func asRecords[T render.Record](list []T) []render.Record {
	records := make([]render.Record, len(list))
	for i, r := range list {
		records[i] = r
	}
	return records
}

// folded breaks a text between words into lines of at most so many characters.
func folded(text string, width int) []string {
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

// wordsOf prints each value of a list.
func wordsOf[T any](list []T) []string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = fmt.Sprint(v)
	}
	return out
}

// bytesOf writes a number of bytes.
func bytesOf(n uint64) string {
	if n == 1 {
		return "1 byte"
	}
	return fmt.Sprintf("%d bytes", n)
}
