package command

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"ringcli/ring/bootstrap/hosts"
	"ringcli/trace"
)

// sizeWords are a few sizes; any other can be typed.
var sizeWords = []string{"4K", "64K", "1M", "16M", "256M", "1G"}

// FlagText returns a flag of the command that is being completed, or what stands
// in for it: the environment.
func FlagText(cmd *cobra.Command, name string) string {
	if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
		return f.Value.String()
	}
	return os.Getenv("RINGCLI_" + strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
}

// rankWords are the ranks of --list with their hosts.
func rankWords(cmd *cobra.Command) []string {
	nodes, err := hosts.Parse(FlagText(cmd, "list"), 1)
	if err != nil {
		return nil
	}
	words := make([]string, len(nodes))
	for i, n := range nodes {
		words[i] = fmt.Sprintf("%d\t%s", i, n.Host)
	}
	return words
}

// completeHosts completes the last entry of a list of hosts from /etc/hosts, or the
// file of "@FILE" or "@mpich:FILE".
func completeHosts(_ *cobra.Command, typed string, _ []string) ([]string, cobra.ShellCompDirective) {
	for _, mark := range []string{"@mpich:", "@"} {
		if path, isFile := strings.CutPrefix(typed, mark); isFile {
			return filesAfter(mark, path), cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
		}
	}
	text, _ := os.ReadFile("/etc/hosts") // or there are no names
	hosts := listOf(typed, namesOfHosts(string(text)))
	if !strings.Contains(typed, ",") {
		hosts = append(hosts, "@\ta file of hosts")
	}
	return hosts, cobra.ShellCompDirectiveNoSpace | cobra.ShellCompDirectiveNoFileComp
}

// filesAfter lists the files whose path begins with what is typed, of the
// extensions if any are given, with a mark before each; directories end in a slash.
func filesAfter(mark, typed string, extensions ...string) []string {
	paths, err := filepath.Glob(escapeGlob(typed) + "*")
	if err != nil {
		return nil
	}
	var words []string
	for _, path := range paths {
		if info, err := os.Stat(path); err == nil && info.IsDir() {
			path += "/"
		} else if len(extensions) > 0 && !slices.Contains(extensions, strings.TrimPrefix(filepath.Ext(path), ".")) {
			continue
		}
		words = append(words, mark+path)
	}
	return words
}

var escapeGlob = strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace

// namesOfHosts are the names in /etc/hosts (hosts(5)), without those of the
// loopback, which no other node has.
func namesOfHosts(text string) []string {
	var names []string
	for line := range strings.Lines(text) {
		line, _, _ = strings.Cut(line, "#")
		fields := strings.Fields(line)
		if len(fields) < 2 {
			continue
		}
		address, err := netip.ParseAddr(fields[0])
		if err != nil || !address.IsGlobalUnicast() {
			continue
		}
		for _, name := range fields[1:] {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// completeLevels completes the last part of a trace specification: a level for all,
// or subsystem=level.
func completeLevels(_ *cobra.Command, typed string, _ []string) ([]string, cobra.ShellCompDirective) {
	cut := strings.LastIndex(typed, ",") + 1
	before, part := typed[:cut], typed[cut:]
	if name, _, hasLevel := strings.Cut(part, "="); hasLevel {
		return prefixed(before+name+"=", traceLevels), cobra.ShellCompDirectiveNoFileComp
	}
	var words []string
	for _, l := range trace.Levels() {
		name := l.Subsystem.String()
		if !strings.Contains(","+before, ","+name+"=") {
			words = append(words, before+name+"=")
		}
	}
	if before == "" {
		words = append(words, traceLevels...)
	}
	return words, cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveNoSpace
}

var traceLevels = []string{"debug", "info", "warn", "error", "off"}

func prefixed(prefix string, words []string) []string {
	list := make([]string, len(words))
	for i, w := range words {
		list[i] = prefix + w
	}
	return list
}

// listOf completes the last of several words that are separated by commas.
func listOf(typed string, words []string) []string {
	cut := strings.LastIndex(typed, ",") + 1
	given := strings.Split(typed[:cut], ",")
	rest := slices.DeleteFunc(slices.Clone(words), func(w string) bool { return slices.Contains(given, w) })
	return prefixed(typed[:cut], rest)
}

// completion returns what begins with what is typed, and others. A description
// stands after a tab.
type completion func(cmd *cobra.Command, typed string, args []string) ([]string, cobra.ShellCompDirective)

// wordsOnly is a completion of words that need not begin with what is typed.
func wordsOnly(list func(cmd *cobra.Command, args []string) []string) completion {
	return func(cmd *cobra.Command, _ string, args []string) ([]string, cobra.ShellCompDirective) {
		return list(cmd, args), cobra.ShellCompDirectiveNoFileComp
	}
}
