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
		comment := cmp.Or(s.Comment, strings.ToUpper(s.Usage[:1])+s.Usage[1:]+".")
		fmt.Fprintf(&b, "\n# %s\n#%s: %s\n", strings.ReplaceAll(comment, "\n", "\n# "), s.Name, cmp.Or(Value{Value: s.Default}.String(), `""`))
	}
	return b.String()
}
