package configs

import (
	"cmp"
	"fmt"
	"strings"
)

const sampleHead = `# Configuration of ringcli: a sample with every setting and its default.
#
# Copy it to ./ringcli.yaml, ~/.config/ringcli/config.yaml or
# /etc/ringcli/config.yaml (the first that exists is read, and only that one),
# or name it with --config, and take the '#' off the settings to change.
# A flag is stronger than a variable RINGCLI_NAME, and that is stronger than
# the file. ` + "`ringcli config`" + ` prints what is in force and where it came from.
# Nobody but you and root may be able to write to the file or its directory.
# ./ringcli.yaml cannot set token-file or a file to write.
`

// Sample returns a commented configuration file with every setting.
func Sample() string {
	var b strings.Builder
	b.WriteString(sampleHead)
	for _, s := range Settings {
		if s.Section != "" {
			fmt.Fprintf(&b, "\n# --- %s %s\n", s.Section, strings.Repeat("-", 72-len(s.Section)))
		}
		usage := strings.ReplaceAll(s.FlagUsage(), "`", "")
		comment := Folded(strings.ToUpper(usage[:1])+usage[1:]+".", sampleWidth)
		fmt.Fprintf(&b, "\n# %s\n#%s: %s\n", strings.Join(comment, "\n# "), s.Name, cmp.Or(Value{Value: s.Default}.String(), `""`))
	}
	return b.String()
}

// sampleWidth is how wide the sample's comments are, in characters.
const sampleWidth = 88

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
