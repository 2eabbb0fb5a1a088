package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/cobra/doc"
	"github.com/spf13/pflag"

	"ringcli/cli/clitest"
	"ringcli/cli/command"
	"ringcli/cli/connect"
	"ringcli/cli/topics"
	"ringcli/configs"
	"ringcli/configs/codes"
)

// The man pages, made by cobra/doc from the command table: ringcli(1), one page
// for each of its commands, and ringcli-commands(7) for those of a script or the
// shell.
func TestGoldenManPages(t *testing.T) {
	pages := manPages(t)
	for name, text := range pages {
		clitest.Golden(t, filepath.Join("man", name), text)
	}
	entries, err := os.ReadDir("man")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if _, known := pages[e.Name()]; known {
			continue
		}
		if !clitest.Update {
			t.Errorf("man/%s is of no command; `make man` removes it", e.Name())
		} else if err := os.Remove(filepath.Join("man", e.Name())); err != nil {
			t.Error(err)
		}
	}
}

func manPages(t *testing.T) map[string]string {
	t.Helper()
	root := docTree(command.Process)
	pages := map[string]string{}
	for _, cmd := range append(root.Commands(), root) {
		if cmd.IsAdditionalHelpTopicCommand() {
			page := manOfTopic(manPage(t, cmd, "7"))
			if cmd.Name() == topics.Failures {
				page = insertBefore(page, ".SH SEE ALSO\n", manOfFailures())
			}
			pages["ringcli-"+cmd.Name()+".7"] = page
			continue
		}
		if !cmd.IsAvailableCommand() && cmd != root || cmd.Name() == "help" {
			continue
		}
		page := manPage(t, cmd, "1")
		if cmd == root {
			page = insertBefore(page, ".SH SEE ALSO\n", manOfProcess())
			page = strings.Replace(page, ", \\fBringcli-help(1)\\fP", "", 1)
		}
		pages[strings.ReplaceAll(cmd.CommandPath(), " ", "-")+".1"] = strings.TrimSuffix(page, "\n") + ", \\fBringcli-commands(7)\\fP\n"
	}
	pages["ringcli-commands.7"] = manOfLines(t)
	return pages
}

// docTree is a tree whose texts are markdown, which cobra/doc takes them for.
func docTree(where command.Where) *cobra.Command {
	root := newRoot(io.Discard, io.Discard)
	if where == command.Line {
		root = &cobra.Command{Use: "ringcli"}
	}
	testTable.Tree(root, where, func(context.Context, command.Row, command.Call) error { return nil })
	root.InitDefaultHelpCmd()
	for _, cmd := range append(root.Commands(), root) {
		cmd.DisableAutoGenTag = true
		// The page of the commands says more than their list.
		cmd.Long = markdown(strings.Replace(cmd.Long, connect.LineHelp, "The commands of -c and -f are in ringcli-commands(7).", 1))
		cmd.Short = escapeMarkdown(cmd.Short)
		for _, flags := range []*pflag.FlagSet{cmd.Flags(), cmd.PersistentFlags()} {
			flags.VisitAll(func(f *pflag.Flag) { f.Usage = escapeMarkdown(f.Usage) })
		}
	}
	return root
}

var escapeMarkdown = strings.NewReplacer("*", `\*`, "_", `\_`, "<", `\<`, "[", `\[`).Replace

// markdown makes a block of what is indented in a help text.
func markdown(text string) string {
	var b strings.Builder
	inBlock := false
	for line := range strings.Lines(strings.TrimSpace(text) + "\n") {
		indented := strings.HasPrefix(line, "  ")
		switch {
		case indented && !inBlock:
			b.WriteString("\n```\n")
		case !indented && inBlock:
			b.WriteString("```\n\n")
		}
		if inBlock = indented; !inBlock {
			line = escapeMarkdown(line)
		}
		b.WriteString(line)
	}
	if inBlock {
		b.WriteString("```\n")
	}
	return b.String()
}

var (
	manHeader = regexp.MustCompile(`^\.nh\n\.TH "([^"]*)" "(.)" "[^"]*"`)
	// A flag and its description are lines with a tab between them.
	manFlag = regexp.MustCompile(`(?m)^(?:\n?\.PP\n)?(\\fB-.*)\n\t(.*)\n`)
	manOff  = regexp.MustCompile(`\[=false\]|=""|=$`) // what it is by default says nothing
	manGap  = regexp.MustCompile(`\n\n+`)
)

// manPage is what cobra/doc makes, without what changes from day to day and with
// flags as man(7) has them.
func manPage(t *testing.T, cmd *cobra.Command, section string) string {
	t.Helper()
	var b bytes.Buffer
	header := &doc.GenManHeader{Section: section, Date: &time.Time{}, Source: "ringcli", Manual: "ringcli"}
	if err := doc.GenMan(cmd, header, &b); err != nil {
		t.Fatal(err)
	}
	page := manHeader.ReplaceAllString(b.String(), `.nh
.TH "$1" "$2" ""`)
	page = manFlag.ReplaceAllStringFunc(page, func(entry string) string {
		part := manFlag.FindStringSubmatch(entry)
		return ".TP\n" + strings.ReplaceAll(manOff.ReplaceAllString(part[1], ""), "-", `\-`) + "\n" + part[2] + "\n"
	})
	page = strings.ReplaceAll(page, ".SH OPTIONS INHERITED FROM PARENT COMMANDS", ".SH OPTIONS OF EVERY COMMAND")
	return manGap.ReplaceAllString(page, "\n")
}

func insertBefore(text, mark, more string) string {
	i := strings.Index(text, mark)
	if i < 0 {
		return text + more
	}
	return text[:i] + more + text[i:]
}

// roff escapes text.
func roff(text string) string {
	text = strings.NewReplacer(`\`, `\e`, "-", `\-`).Replace(text)
	if strings.HasPrefix(text, ".") || strings.HasPrefix(text, "'") {
		text = `\&` + text
	}
	return text
}

// manOfProcess is what ringcli(1) says beside its commands.
func manOfProcess() string {
	var b strings.Builder
	b.WriteString(".SH COMMANDS\n")
	for _, c := range testTable.Rows {
		if c.Where&command.Process != 0 {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fP\n%s\n", roff(c.Name), roff(c.Summary))
		}
	}
	b.WriteString(".SH TOPICS\nPages of the manual, which \\fBringcli help\\fP and the shell's \\fBhelp\\fP show, too.\n")
	for _, topic := range topics.All() {
		fmt.Fprintf(&b, ".TP\n\\fBringcli\\-%s(7)\\fP\n%s\n", roff(topic.Name), roff(topic.Summary))
	}
	b.WriteString(`.SH CONFIGURATION
A setting is taken from the first of: its flag, its environment variable, the
configuration file, its default.
The configuration file is that of \fB\-\-config\fP, else the first that is there of
\fI./ringcli.yaml\fP, \fI$XDG_CONFIG_HOME/ringcli/config.yaml\fP (\fI~/.config\fP without that
variable) and \fI/etc/ringcli/config.yaml\fP; its keys are the flags' names without the
dashes.
`)
	for _, s := range configs.Settings {
		fmt.Fprintf(&b, ".TP\n\\fB\\-\\-%s\\fP, \\fB%s\\fP%s\n%s\n", roff(s.Name), s.Env(), defaultOf(s, " (%s)", roff), roff(s.Usage))
	}
	b.WriteString(`.SH ENVIRONMENT
.TP
\fBNO_COLOR\fP
if it is set, tables have no colour; nor do they if \fBTERM\fP is \fIdumb\fP
.TP
\fBRINGCLI_TRACE_DIR\fP
where the flight recorder is written when something fails; else the directory
for temporary files
.SH EXIT STATUS
.TP
0
all is well
.TP
1
it works, but below \fB\-\-floor\fP or what was expected with \fB\-\-warning\fP
.TP
2
wrong data, a rank lost, a deadline passed
.TP
3
bad usage or configuration: nothing was tried
.TP
130
Ctrl\-C
`)
	return b.String()
}

// defaultOf formats the default of a setting; nothing if it has none.
func defaultOf(s configs.Setting, format string, escape func(string) string) string {
	text := fmt.Sprint(s.Default)
	if size, ok := s.Default.(uint64); ok {
		text = configs.FormatSize(size)
	}
	if text == "" {
		return ""
	}
	return fmt.Sprintf(format, escape(text))
}

// manOfTopic leaves of a command's page what a topic has: a name and a text.
func manOfTopic(page string) string {
	head, rest, _ := strings.Cut(page, ".SH SYNOPSIS\n")
	_, text, _ := strings.Cut(rest, ".SH DESCRIPTION\n")
	text, _, _ = strings.Cut(text, ".SH OPTIONS\n")
	return head + ".SH DESCRIPTION\n" + text + ".SH SEE ALSO\n\\fBringcli(1)\\fP, \\fBringcli\\-commands(7)\\fP\n"
}

// manOfFailures is what each code stands for.
func manOfFailures() string {
	var b strings.Builder
	b.WriteString(".SH CODES\n")
	for _, f := range codes.All() {
		fmt.Fprintf(&b, ".SS %s\n%s (exit code %s).\n", roff(string(f.Code)), roff(f.What), f.Exit())
		for _, part := range [][2]string{{"Named", f.Named}, {"Cause", f.Cause}, {"Cure", f.Cure}} {
			fmt.Fprintf(&b, ".TP\n\\fB%s\\fP\n%s\n", part[0], roff(part[1]))
		}
	}
	return b.String()
}

// manOfLines is ringcli-commands(7), all commands of a line.
func manOfLines(t *testing.T) string {
	var b strings.Builder
	b.WriteString(`.nh
.TH "RINGCLI\-COMMANDS" "7" "" "ringcli" "ringcli"
.SH NAME
ringcli\-commands \- the commands of ringcli's scripts and its shell
.SH DESCRIPTION
These commands are given to \fBringcli connect\fP, \fBringcli local\fP and
\fBringcli shell\fP: with \fB\-c\fP, in a file with \fB\-f\fP, or at the shell's prompt.
.PP
Commands end at a semicolon or at the end of a line. Words are quoted as in a
shell: '...' as it is, "..." with \e" and \e\e, \e before a single character. A
# at the start of a word begins a comment. Nothing is expanded. The first
command that fails ends a script, but with \fB\-\-keep\-going\fP. A command that ends in
& runs in the background, and those after it begin at once (\fBjobs\fP).
.PP
Sizes take K, M and G (1024). \fBhelp COMMAND\fP shows a command's flags.
`)
	root := docTree(command.Line)
	for _, g := range command.Groups {
		title := false
		for _, c := range testTable.Rows {
			if c.Where&command.Line == 0 || c.Group != g.ID {
				continue
			}
			if !title {
				fmt.Fprintf(&b, ".SH %s\n", strings.ToUpper(strings.TrimSuffix(g.Title, ":")))
				title = true
			}
			cmd, _, err := root.Find([]string{c.Name})
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&b, ".SS %s\n%s", roff(c.Name), manOfLine(t, c, cmd))
		}
	}
	b.WriteString(".SH SEE ALSO\n\\fBringcli(1)\\fP, \\fBringcli\\-connect(1)\\fP, \\fBringcli\\-local(1)\\fP, \\fBringcli\\-shell(1)\\fP\n")
	return b.String()
}

var manSection = regexp.MustCompile(`(?m)^\.SH (.*)\n`)

// manOfLine turns a command's page into a part of one.
func manOfLine(t *testing.T, c command.Row, cmd *cobra.Command) string {
	t.Helper()
	cmd.Parent().RemoveCommand(cmd) // its path is its name
	for _, name := range c.Settings {
		cmd.Flags().Lookup(name).Hidden = true // they are explained once, in ringcli(1)
	}
	page := manPage(t, cmd, "7")
	var b strings.Builder
	fmt.Fprintf(&b, "\\fB%s\\fP\n", roff(c.Use()))
	if len(c.Aliases) > 0 {
		fmt.Fprintf(&b, ".PP\nAlso \\fB%s\\fP.\n", roff(strings.Join(c.Aliases, ", ")))
	}
	heads := manSection.FindAllStringSubmatchIndex(page, -1)
	for i, at := range heads {
		end := len(page)
		if i+1 < len(heads) {
			end = heads[i+1][0]
		}
		name, text := page[at[2]:at[3]], page[at[1]:end]
		switch name {
		case "DESCRIPTION", "EXAMPLE":
			b.WriteString(".PP\n" + text)
		case "OPTIONS":
			b.WriteString(text)
		}
	}
	if len(c.Settings) > 0 {
		fmt.Fprintf(&b, ".PP\nSettings of ringcli(1) that are flags here, too: \\fB%s\\fP.\n", roff("--"+strings.Join(c.Settings, ", --")))
	}
	return strings.ReplaceAll(b.String(), ".TP\n\\fB\\-h\\fP, \\fB\\-\\-help\\fP\nhelp for "+c.Name+"\n", "")
}

// What is generated must be what man can show.
func TestManPagesRender(t *testing.T) {
	pages, err := filepath.Glob("man/*.[17]")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%d pages: %v", len(pages), err)
	}
	t.Run("mandoc", func(t *testing.T) {
		mandoc := need(t, "mandoc")
		// The exit status tells of any warning.
		out, _ := exec.Command(mandoc, append([]string{"-T", "lint", "-W", "warning"}, pages...)...).CombinedOutput()
		for line := range strings.Lines(string(out)) {
			// A date would make a page of each day another one.
			if !strings.Contains(line, "missing date") {
				t.Error(line)
			}
		}
	})
	t.Run("man", func(t *testing.T) {
		man := need(t, "man")
		for _, page := range pages {
			cmd := exec.Command(man, "--warnings", "-l", page)
			cmd.Env = append(os.Environ(), "MANWIDTH=80", "MANPAGER=cat", "LC_ALL=C.UTF-8")
			var out, warnings bytes.Buffer
			cmd.Stdout, cmd.Stderr = &out, &warnings
			if err := cmd.Run(); err != nil || warnings.Len() > 0 || !strings.Contains(out.String(), "DESCRIPTION") {
				t.Errorf("%s: %v\n%s%s", page, err, warnings.String(), out.String())
			}
		}
	})
}

// need finds a tool that a test calls. Without it the test is skipped, but for
// continuous integration, which has installed it.
func need(t *testing.T, tool string) string {
	t.Helper()
	path, err := exec.LookPath(tool)
	if err == nil {
		return path
	}
	if os.Getenv("RINGTEST_CI_RUN") != "" {
		t.Fatalf("%s is not installed: `.ci/run setup` does that", tool)
	}
	t.Skipf("NOT TESTED: %s is not installed", tool)
	return ""
}

const (
	topicsBegin = "<!-- topics: begin (`make man` writes them from cli/topics) -->\n"
	topicsEnd   = "<!-- topics: end -->\n"
)

// README's list of topics is made from them.
func TestGoldenManTopics(t *testing.T) {
	const path = "../README.md"
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, begun := strings.Cut(string(text), topicsBegin)
	_, after, ended := strings.Cut(rest, topicsEnd)
	if !begun || !ended {
		t.Fatalf("README.md has no place for the topics: expected the lines\n%s%s", topicsBegin, topicsEnd)
	}
	list := "| topic | what it says |\n|---|---|\n"
	for _, topic := range topics.All() {
		list += fmt.Sprintf("| `%s` | %s |\n", topic.Name, topic.Summary)
	}
	clitest.Golden(t, path, before+topicsBegin+list+topicsEnd+after)
}
