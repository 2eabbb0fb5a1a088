package cli

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// typing is what an example needs besides being typed as it stands.
type typing struct {
	replace []string          // pairs: what it says, and what is typed
	begin   string            // of lines in a shell: the command that this shell is
	before  []string          // lines typed there first
	peer    map[string]string // what rank 1 types in a shell of its own beside a line
	code    int               // exit code
	skip    string            // why it is not typed
}

// typings are the examples that cannot be typed just so, by their first command. The
// others can.
var typings = map[string]typing{
	"make && ./ringcli local -n 4":                         {skip: "`.ci/run readme-run` types it"},
	"ringcli local -n 4":                                   {replace: []string{"-n 4", "-n 2"}},
	"ringcli model --ranks 1024 --alpha 3us --beta 48GB/s": {replace: []string{"1024", "64"}},
	"make test":         {skip: "this is one of those tests; `.ci/run readme-test` types it"},
	"ringcli tune -n 4": {replace: []string{"-n 4", "-n 4 --budget 1s"}},
	"ringcli tune --index 0 --list node0,node1": {replace: []string{"--index 0", "--budget 1s --index 0"}},
	"tune --budget 40s":                         {replace: []string{"40s", "1s"}},
	"ringcli shell --device soft:lo --index 0 --list 127.7.3.1,127.7.3.2 --timeout 5s": {peer: besideWrongPSN},
	"ringcli connect --index 1 --list node0,node1 --token-file ring.token": {
		replace: []string{"ringcli connect", "(umask 077; echo 0123456789abcdef > $$; mv $$ ring.token); ringcli connect"},
	},
	"qp right": {
		begin: "ringcli shell --device soft:lo --index 0 --list 127.7.3.1,127.7.3.2 --timeout 5s", peer: besideWrongPSN,
		before: []string{"open", "init", "exchange", "rtr --side right --psn 5", "rtr --side left", "rts", "ping right"},
	},
	"ringcli lab a --rkey 0xdeadbeef":                {code: exit.Critical},
	"ringcli lab d --memory cuda:0":                  {skip: "it wants a GPU: gpu_test.go has libraries of its own for one, and `make test-gpu` a real one"},
	"ringcli lab b node0":                            {skip: "its server is the stock tool on another node: lab_test.go and `.ci/run verbs` have both"},
	"ringcli pingpong --device soft:eth0 node0":      {skip: "its server is the stock tool on another node: pingpong_test.go and `.ci/run verbs` have both"},
	"ringcli bench all-reduce -n 4 -b 8 -e 64M -f 2": {replace: []string{"64M", "4K"}},
	"ringcli connect --index 0 --list node0,node1 -c 'ping; all-reduce --size 1G --check'":                                                             {replace: []string{"1G", "1M"}},
	"ringcli bench all-gather -n 2 --device soft:lo -b 64K -e 64M -f 4 --protocol eager,rendezvous-write,rendezvous-read":                              {replace: []string{"64M", "1M"}},
	"ringcli bench all-reduce -n 2 -b 8 -e 16M -f 8 --algorithm ring,inbox --protocol eager,rendezvous,rendezvous-read,direct":                         {replace: []string{"16M", "64K"}},
	"ringcli bench all-reduce -n 2 --device soft:lo -b 1K -e 16M -f 4 --protocol eager,receiver-initiated,rendezvous-write,rendezvous-read --iters 10": {replace: []string{"16M", "64K"}},
	"ringcli bench all-reduce -n 4 --device soft:lo --algorithm all -b 8 -e 4M -f 8 --iters 10":                                                        {replace: []string{"4M", "256K"}},
	"ringcli connect --index 0 --list node0,node1 --channels 4 --device soft:eth0,soft:eth1":                                                           {replace: []string{"eth0", "lo", "eth1", "lo"}},
	"ringcli transport bench --device shm":           {replace: []string{"--device shm", "--device shm -e 16K --benchmark_min_time=2x"}},
	"ringcli bench p2p -n 2":                         {replace: []string{"-n 2", "-n 2 -e 64K"}},
	"ringcli connect --list 'node[0-3,7]' --index 2": {skip: "it takes nodes of these names: ring/bootstrap/hosts reads such lists in its tests"},
}

// elsewhere is where commands are typed that are not ringcli's own.
var elsewhere = map[string]typing{
	"dpkg": packaged, "rpm": packaged, "podman": packaged,
	"mpirun": launched, "srun": launched, "torchrun": launched,
}

var (
	packaged = typing{skip: "`.ci/run release` makes packages and an image, and runs what they bring"}
	launched = typing{skip: "`.ci/run launchers` has real launchers start rings"}
)

// typingOf is how a command is typed.
func typingOf(command string) typing {
	program, _, _ := strings.Cut(command, " ")
	if how, ok := elsewhere[program]; ok {
		return how
	}
	return typings[command]
}

// besideWrongPSN is what rank 1 types where rank 0 has a wrong PSN.
var besideWrongPSN = map[string]string{
	"open": "open", "init": "init --psn 0x6d6213", "exchange": "exchange", "rtr --side right --psn 5": "rtr", "rts": "rts",
	"reset; init; exchange": "reset; init; exchange", "rtr; rts": "rtr; rts",
}

// written is an example of a page: commands, each with what it prints, if that is shown.
type written struct {
	page  string
	line  int // of the page, from 1
	steps []step
}

type step struct {
	prompt  string // of ringcli's shell; else it is for the system's
	command string
	shows   []string
}

var (
	promptInPage  = regexp.MustCompile(`^((?:ring \d/\d \S+ \S+|no ring)>) (.*)$`)
	commandInPage = regexp.MustCompile(`^(?:\$ )?((?:make test$|make && \./ringcli\b|(?:ringcli|dpkg|rpm|podman|mpirun|srun|torchrun)\b).*)$`)
	comment       = regexp.MustCompile(`\s+# .*$`)
)

// examplesIn finds the blocks of a page that show commands: those that are fenced, and
// those that are indented by at least so much.
func examplesIn(page, text string, indent int) (list []written) {
	margin := strings.Repeat(" ", indent)
	var block []string
	from, fenced := 0, false
	end := func() {
		e := exampleOf(page, from, block)
		if last := len(list) - 1; len(e.steps) > 0 && e.steps[0].prompt != "" && typings[e.steps[0].command].begin == "" && last >= 0 {
			list[last].steps = append(list[last].steps, e.steps...) // what is typed into the shell of before
		} else if len(e.steps) > 0 || codeIn(page) && len(trimmed(block)) > 0 {
			list = append(list, e)
		}
		block = nil
	}
	for i, line := range strings.Split(text, "\n") {
		switch {
		case strings.HasPrefix(line, "```"):
			end()
			fenced, from = !fenced, i+2
		case fenced:
			block = append(block, line)
		case strings.HasPrefix(line, margin):
			if block == nil {
				from = i + 1
			}
			block = append(block, line[indent:])
		case line == "" && block != nil:
			block = append(block, "")
		default:
			end()
		}
	}
	end()
	return list
}

// codeIn tells whether all that is indented in a page is code.
func codeIn(page string) bool { return filepath.Ext(page) == ".md" }

func exampleOf(page string, line int, block []string) written {
	e := written{page: page, line: line}
	goesOn := false
	for _, text := range block {
		prompt, command := promptInPage.FindStringSubmatch(text), commandInPage.FindStringSubmatch(text)
		last := len(e.steps) - 1
		switch {
		case goesOn:
			e.steps[last].command += " " + strings.TrimSpace(text)
		case prompt != nil:
			e.steps = append(e.steps, step{prompt: prompt[1], command: prompt[2]})
		case command != nil && !strings.HasPrefix(text, "ringcli: "):
			e.steps = append(e.steps, step{command: command[1]})
		case last >= 0:
			e.steps[last].shows = append(e.steps[last].shows, text)
		}
		if last = len(e.steps) - 1; last >= 0 {
			e.steps[last].command, goesOn = strings.CutSuffix(e.steps[last].command, `\`)
			e.steps[last].command = strings.TrimSpace(comment.ReplaceAllString(e.steps[last].command, ""))
		}
	}
	for i := range e.steps {
		e.steps[i].shows = trimmed(e.steps[i].shows)
	}
	return e
}

// trimmed is without the empty lines at both ends.
func trimmed(lines []string) []string {
	for len(lines) > 0 && strings.TrimSpace(lines[0]) == "" {
		lines = lines[1:]
	}
	for len(lines) > 0 && strings.TrimSpace(lines[len(lines)-1]) == "" {
		lines = lines[:len(lines)-1]
	}
	return lines
}

var shapes = []struct {
	what *regexp.Regexp
	by   string
}{
	{regexp.MustCompile(`\|.*$`), "|"},             // a chart
	{regexp.MustCompile(` at CPUs? [-,0-9]+`), ""}, // if that is settled
	{regexp.MustCompile(`\s+(\*<?|<|slowest)(\s|$)`), "$2"},
	{regexp.MustCompile(`0x[0-9a-f]+`), "0"},
	{regexp.MustCompile(`\b(?:\d+\.){3}\d+(?::\d+)?`), "ADDRESS"},
	{regexp.MustCompile(`\b\d+(?:\.\d+)?(?:e[-+]\d+)?(?:[KMG]\b|%)?`), "0"},
	{regexp.MustCompile(`\s+`), " "},
	{regexp.MustCompile(`^(?:all-reduce|reduce-scatter|all-gather) ((?:0|any) .*)$`), "OPERATION $1"}, // a row of tune
	{regexp.MustCompile(`^(OPERATION 0) \S+ 0 \S+ 0 (?:-|0x)$`), "$1 WAY 0 WAY 0 GAIN"},
	{regexp.MustCompile(`^(OPERATION 0) (?:0|any) \S+ \S+ (?:0x|is the default)$`), "$1 0 ALGORITHM PROTOCOL GAIN"},
}

// shape is a line without its values.
func shape(line string) string {
	for _, s := range shapes {
		line = s.what.ReplaceAllString(line, s.by)
	}
	return strings.TrimSpace(line)
}

var wrapped = regexp.MustCompile(`^ {20,}[^ |]`)

// shapesOf are those of lines; what was wrapped, for the terminal's edge, is whole.
func shapesOf(lines []string) (list []string) {
	inError := false
	for _, line := range trimmed(lines) {
		s := shape(line)
		switch {
		case len(list) > 0 && (inError || wrapped.MatchString(line)):
			list[len(list)-1] += " " + s
		default:
			list = append(list, s)
			inError = strings.HasPrefix(line, "ringcli: ")
		}
	}
	return list
}

// differs says where output has not the shape that a page shows: the same lines with the
// same columns, but "..." stands for any, and rows of one shape may be more or fewer.
func differs(shows, got []string) string {
	want, have := shapesOf(shows), shapesOf(got)
	last, skips := "", false
	for _, w := range want {
		if w == "..." {
			skips = true
			continue
		}
		pattern := regexp.MustCompile("^" + strings.ReplaceAll(regexp.QuoteMeta(w), ` \.\.\.`, ".*") + "$")
		if w == last && (len(have) == 0 || !pattern.MatchString(have[0])) {
			continue // fewer rows
		}
		for len(have) > 0 && !pattern.MatchString(have[0]) && (skips || have[0] == last) {
			have = have[1:]
		}
		if len(have) == 0 {
			return fmt.Sprintf("no line is as %q", w)
		}
		if !pattern.MatchString(have[0]) {
			return fmt.Sprintf("the page has %q,\n and printed is %q", w, have[0])
		}
		last, have, skips = have[0], have[1:], false
	}
	for len(have) > 0 && have[0] == last {
		have = have[1:]
	}
	if len(have) > 0 && !skips {
		return fmt.Sprintf("the page does not have %q", have[0])
	}
	return ""
}

// Every example of README and of the pages in the program is typed, and prints what has
// the shape that the page shows.
func TestPagesAreTyped(t *testing.T) {
	verbstest.Long(t)
	pages, err := filepath.Glob("topics/*.txt")
	if err != nil || len(pages) == 0 {
		t.Fatalf("%v: %v", pages, err)
	}
	used := map[string]bool{}
	for _, page := range append([]string{"../README.md"}, pages...) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		margin := 2
		if codeIn(page) {
			margin = 4
		}
		for _, e := range examplesIn(filepath.Base(page), string(text), margin) {
			if len(e.steps) == 0 {
				t.Errorf("%s:%d: code without a command: nobody can type it, and see whether it is so", e.page, e.line)
				continue
			}
			for _, s := range e.steps {
				used[s.command] = true
			}
			t.Run(fmt.Sprintf("%s:%d", e.page, e.line), func(t *testing.T) {
				t.Parallel()
				new(typist).example(t, e)
			})
		}
	}
	for command := range typings {
		if !used[command] {
			t.Errorf("no page has the example %q any more", command)
		}
	}
}

// typist types the examples of a page, one after the other.
type typist struct {
	pane *pane
	how  typing
	dir  string
	peer io.WriteCloser // the lines of rank 1; nil if there is none
}

func (y *typist) example(t *testing.T, e written) {
	y.how = typings[e.steps[0].command]
	y.dir = t.TempDir()
	self, err := os.Executable()
	if err == nil {
		err = os.Symlink(self, filepath.Join(y.dir, "ringcli"))
	}
	if err != nil {
		t.Fatal(err)
	}
	if y.how.begin != "" {
		y.open(t, step{command: y.how.begin})
		for _, line := range y.how.before {
			y.says(t, line)
		}
	}
	for len(e.steps) > 0 {
		s, n := e.steps[0], 1
		switch how := typingOf(s.command); {
		case how.skip != "":
			t.Logf("NOT TYPED: %s: %s", s.command, how.skip)
		case s.prompt != "":
			y.pane.prompt(strings.TrimSuffix(s.prompt, ">"))
			matches(t, s, y.says(t, s.command))
		case len(e.steps) > 1 && e.steps[1].prompt != "":
			y.open(t, s)
		default:
			n = ringOf(e.steps)
			y.together(t, e.steps[:n])
		}
		e.steps = e.steps[n:]
	}
}

// environment is that of a user who has nothing but ringcli.
func (y *typist) environment() []string {
	return []string{
		"PATH=" + y.dir + ":" + os.Getenv("PATH"), "RINGCLI_DEVICE=auto", benchSpan + "=1ms",
		"XDG_CONFIG_HOME=" + y.dir + "/etc", "XDG_STATE_HOME=" + y.dir + "/etc", "RINGCLI_TRACE_DIR=" + y.dir,
	}
}

// as is a command as it is typed: on addresses of the test's own.
func as(command, list string) string {
	how := typings[command]
	command = strings.NewReplacer(how.replace...).Replace(strings.TrimSuffix(command, " &"))
	return listFlag.ReplaceAllString(command, "--list "+list)
}

// open begins a shell in a terminal, and rank 1 beside it.
func (y *typist) open(t *testing.T, s step) {
	t.Helper()
	list := strings.Join(freshList(t, 2), ",")
	command := as(s.command, list)
	y.pane = newTmux(t, y.environment()...).open(t, strings.Fields(command)[1:]...)
	if y.how.peer != nil {
		p := program(t, strings.Fields(indexFlag.ReplaceAllString(command, "--index 1"))[1:]...)
		p.Env = append(p.Env, y.environment()...)
		var err error
		if y.peer, err = p.StdinPipe(); err != nil {
			t.Fatal(err)
		}
		p.start(t)
	}
	y.pane.await("a prompt", promptOnScreen.MatchString)
	screen := y.pane.screen()
	matches(t, s, screen[:strings.LastIndex(screen, "\n")+1])
}

// says types a line, and what rank 1 does meanwhile.
func (y *typist) says(t *testing.T, line string) (printed string) {
	t.Helper()
	line = as(line, "")
	typed := y.pane.begin(line)
	if beside := y.how.peer[line]; beside != "" {
		if _, err := io.WriteString(y.peer, beside+"\n"); err != nil {
			t.Fatal(err)
		}
	}
	printed = y.pane.finish(line, typed)
	return printed[:strings.LastIndex(printed, "\n")+1]
}

func matches(t *testing.T, s step, printed string) {
	t.Helper()
	if len(s.shows) == 0 {
		return
	}
	if wrong := differs(s.shows, strings.Split(printed, "\n")); wrong != "" {
		t.Errorf("%s\n%s\nin\n%s", s.command, wrong, printed)
	}
}

var (
	listFlag  = regexp.MustCompile(`--?list \S+`)
	indexFlag = regexp.MustCompile(`--index \d+`)
)

// ringOf counts the first steps that are ranks of one ring.
func ringOf(steps []step) int {
	name := func(s step) string { return listFlag.FindString(s.command) }
	n := 1
	for n < len(steps) && name(steps[0]) != "" && name(steps[n]) == name(steps[0]) && steps[n].prompt == "" &&
		!slices.ContainsFunc(steps[:n], func(s step) bool { return indexFlag.FindString(s.command) == indexFlag.FindString(steps[n].command) }) {
		n++
	}
	return n
}

// together types commands at once, and those of the ranks of their ring that the page
// leaves out.
func (y *typist) together(t *testing.T, steps []step) {
	t.Helper()
	var commands []string
	if list := listFlag.FindString(steps[0].command); list != "" {
		addresses := freshList(t, 1+strings.Count(list, ","))
		for _, s := range steps {
			commands = append(commands, as(s.command, strings.Join(addresses, ",")))
		}
		for rank := range addresses {
			index := fmt.Sprintf("--index %d", rank)
			if !strings.HasPrefix(commands[0], "ringcli shell") && !slices.ContainsFunc(commands, func(c string) bool { return strings.Contains(c, index) }) {
				commands = append(commands, indexFlag.ReplaceAllString(commands[0], index))
			}
		}
	} else {
		commands = []string{as(steps[0].command, "")}
	}
	var ranks []*process
	for _, command := range commands {
		p := program(t)
		p.Path, p.Args, p.Dir = "/bin/bash", []string{"bash", "-c", command}, y.dir
		p.Env = append(p.Env, y.environment()...)
		p.Stderr = p.Stdout // as on a terminal
		p.start(t)
		ranks = append(ranks, p)
	}
	for i, p := range ranks {
		begun := time.Now()
		code := exit.OK
		if i < len(steps) {
			code = typings[steps[i].command].code
		}
		if got := p.end(t, hung); got != code {
			t.Errorf("%s\nends with %d, not %d\n%s", commands[i], got, code, p.stdout.String())
		} else if i < len(steps) {
			matches(t, steps[i], p.stdout.String())
		}
		t.Logf("%.1f s: %s", time.Since(begun).Seconds(), commands[i])
	}
}

// A page that does not show what is printed is told; other values are none of it.
func TestPagesThatAreOutOfDate(t *testing.T) {
	printed := []string{
		"# 4 ranks of shm:0; a row: at least 20 iterations and 1ms", "operation      algo/protocol         bytes  iters  p50 us wrong",
		"all-reduce     ring/direct         1048576    257   202.6     0", "all-reduce     ring/direct         2097152     20    1409     0", "# done",
	}
	page := func(change ...string) []string {
		return strings.Split(strings.NewReplacer(change...).Replace(strings.Join(printed, "\n")), "\n")
	}
	for _, c := range []struct {
		shows []string
		says  string
	}{
		{page(), ""},
		{page("202.6", "3", "1048576    257", "8 1", "1ms", "50ms"), ""},
		{append(page()[:3:3], "# done"), ""}, // fewer rows
		{append(page()[:3:3], "..."), ""},
		{[]string{"...", "# done"}, ""},
		{page("p50 us", "p99 us", "wrong", "WRONG"), `the page has "operation algo/protocol bytes iters p99 us WRONG"`},
		{page("wrong", ""), `and printed is "operation algo/protocol bytes iters p50 us wrong"`},
		{page("   202.6     0", "   202.6"), `the page has "all-reduce ring/direct 0 0 0"`},
		{page()[1:], `and printed is "# 0 ranks`},
		{page()[:4], `the page does not have "# done"`},
		{append(page(), "# over"), `no line is as "# over"`},
		{[]string{"...", "# over", "..."}, `no line is as "# over"`},
	} {
		if got := differs(c.shows, printed); !strings.Contains(got, c.says) || (got == "") != (c.says == "") {
			t.Errorf("%s\n%q, expected %q", strings.Join(c.shows, "\n"), got, c.says)
		}
	}
}
