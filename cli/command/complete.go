package command

import (
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"ringcli/configs"
	"ringcli/repl"
)

// What the value of a flag completes to is declared with the flag: by the type of
// its value (a size, a type of element), by the table of settings, or by Completes.
// What an argument completes to is Command.Words or Row.Complete; one that is
// called LEVELS completes to levels, too, and FILE to files.

// CompletesKey is the annotation of a flag that names what it completes to.
const CompletesKey = "ringcli_completes"

// Completes says what completion offers for a flag that is declared in fs: one of
// the table's completions, by name, and what that takes.
//
//	fs.String("html", "", "...")
//	command.Completes(fs, "html", "files", "html")
func Completes(fs *pflag.FlagSet, flag, what string, args ...string) {
	if err := fs.SetAnnotation(flag, CompletesKey, append([]string{what}, args...)); err != nil {
		panic("cli: " + err.Error())
	}
}

// CompletionOf returns what a flag completes to and what that takes.
func CompletionOf(f *pflag.Flag) (what string, args []string) {
	if a := f.Annotations[CompletesKey]; len(a) > 0 {
		return a[0], a[1:]
	}
	if v, ok := f.Value.(interface{ Words() []string }); ok && v.Words() != nil {
		if f.Value.Type() == "list" {
			return "list", v.Words()
		}
		return "words", v.Words()
	}
	if _, size := f.Value.(*configs.SizeValue); size {
		return "sizes", nil
	}
	if f.Value.Type() == "bool" {
		return "words", []string{"true", "false"}
	}
	if s, ok := configs.Lookup(f.Name); ok {
		if a := s.Completes; a != nil {
			return a[0], a[1:]
		}
		return "words", s.Words()
	}
	return "nothing", nil
}

// completeOnRequest makes a tree know what its flags complete to when a shell asks, and for the
// command that it asks about: cobra keeps what a flag completes to until the process ends, and our
// shell makes a tree for each line.
func (t *Table) completeOnRequest(root *cobra.Command) {
	root.PersistentPreRun = func(cmd *cobra.Command, args []string) {
		if cmd.Name() != cobra.ShellCompRequestCmd {
			return
		}
		asked := root
		if found, _, err := root.Find(args[:max(0, len(args)-1)]); err == nil {
			asked = found
		}
		for _, flags := range []*pflag.FlagSet{asked.LocalFlags(), asked.InheritedFlags()} {
			flags.VisitAll(func(f *pflag.Flag) { t.completeFlag(asked, f) })
		}
	}
}

func (t *Table) completeFlag(cmd *cobra.Command, f *pflag.Flag) {
	what, args := CompletionOf(f)
	// The errors are that there is no such flag, and that it is known already.
	_ = cmd.RegisterFlagCompletionFunc(f.Name, func(cmd *cobra.Command, _ []string, typed string) ([]string, cobra.ShellCompDirective) {
		return t.completions[what](cmd, typed, args)
	})
}

// completeArgs offers words for the first argument, and what an argument's name
// stands for.
func completeArgs(c Row) cobra.CompletionFunc {
	names := strings.Fields(c.Args)
	return func(cmd *cobra.Command, args []string, typed string) ([]string, cobra.ShellCompDirective) {
		name, last := "", len(names)-1
		switch {
		case len(args) <= last:
			name = names[len(args)]
		case last >= 0 && strings.HasSuffix(strings.Trim(names[last], "[]"), "..."):
			name = names[last]
		}
		switch {
		case strings.Contains(name, "LEVELS"):
			levels, directive := completeLevels(cmd, typed, nil)
			if c.Complete != nil && !strings.ContainsAny(typed, "=,") {
				levels = append(c.Complete(args), levels...)
			}
			return levels, directive
		case c.Complete != nil && c.Files:
			return c.Complete(args), cobra.ShellCompDirectiveDefault
		case c.Complete != nil:
			return c.Complete(args), cobra.ShellCompDirectiveNoFileComp
		case strings.Contains(name, "FILE"):
			return nil, cobra.ShellCompDirectiveDefault
		case len(args) == 0:
			return c.Words, cobra.ShellCompDirectiveNoFileComp
		}
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
}

// Candidates reads what cobra answered to __complete: words with hints, and at
// last a directive, by which a shell adds files.
func Candidates(answer, typed string) []repl.Candidate {
	lines := strings.Split(strings.TrimSuffix(answer, "\n"), "\n")
	code, err := strconv.Atoi(strings.TrimPrefix(lines[len(lines)-1], ":"))
	if err != nil {
		return nil
	}
	var list []repl.Candidate
	var extensions []string
	for _, line := range lines[:len(lines)-1] {
		text, hint, _ := strings.Cut(line, "\t")
		list = append(list, repl.Candidate{Text: text, Hint: hint})
		extensions = append(extensions, text)
	}
	var paths []string
	switch directive := cobra.ShellCompDirective(code); {
	case directive&cobra.ShellCompDirectiveFilterFileExt != 0:
		list, paths = nil, filesAfter("", typed, extensions...)
	case directive&cobra.ShellCompDirectiveNoFileComp == 0:
		paths = filesAfter("", typed)
	}
	for _, path := range paths {
		list = append(list, repl.Candidate{Text: path})
	}
	return list
}
