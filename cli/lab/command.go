package lab

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/pingpong"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/configs"
)

// settingsOfTwo are the settings that are about two hosts.
var settingsOfTwo = []string{"list", "index", "tcp-port"}

var labWords = []string{"a", "b", "c"}

// labBytes is the default length of a lab's messages: more than one packet at
// most path MTUs, and quickly compared.
const labBytes = 8 << 10

// Rows is `ringcli lab`.
func Rows() []command.Row {
	return []command.Row{{
		Name: "lab", Group: command.GroupRing, Where: command.Process,
		Summary: "Walk two queue pairs through the verbs, step by step",
		Long: `Takes every step that two queue pairs need to talk to each other, one by one,
and shows what the live objects say after each; then sends, writes and reads,
with every byte verified where it arrives.

  lab a  one process, two queue pairs, no sockets
  lab b  two hosts: the reference sample, ibv_rc_pingpong, as the server or,
         with its HOST, the client; either may be the stock tool (see pingpong)
  lab c  two hosts: rank 0 listens, rank 1 connects, and they swap over TCP
         what each must know of the other

--explain says before each step what it does, why, and what it is called in
libibverbs, and when one fails, what its error means. --rkey and its like use
wrong values on purpose, to see what comes of them; the lab then fails, with
exit code 2, on both ends.`,
		Example: `  ringcli lab a --explain
  ringcli lab a --device soft:lo --rkey 0xdeadbeef
  ringcli lab b --explain                        on node0
  ringcli lab b node0                            on node1
  ringcli lab c --index 0 --list node0,node1     on node0
  ringcli lab c --index 1 --list node0,node1     on node1`,
		Args: "LAB [HOST]", Words: labWords, CheckArgs: checkLab,
		Settings: slices.Concat(settingsOfTwo, configs.NamesOf(Options{})),
		Flags: func(fs *pflag.FlagSet) {
			fs.Bool("explain", false, "say before each step what it does and why")
			command.SizeFlag(fs, "size", labBytes, "bytes of each message (lab b: 1K)")
			command.OptionalFlag[uint32](fs, "rkey", 0, 1<<32-1, "rkey to use in WRITE and READ (the peer's)")
			command.OptionalFlag[uint64](fs, "raddr", 0, 1<<63-1, "address to WRITE to and READ from (the peer's region)")
			command.OptionalFlag[uint32](fs, "psn", 0, 1<<24-1, "PSN to expect first, rq_psn (the peer's)")
			command.OptionalFlag[uint32](fs, "dest-qpn", 0, 1<<24-1, "queue pair to talk to, dest_qp_num (the peer's)")
		},
		Run: runLab,
	}}
}

func checkLab(args []string) error {
	expected := "expected one of " + strings.Join(labWords, ", ")
	switch {
	case len(args) == 0:
		return exit.Usagef("lab: which one? %s", expected)
	case args[0] == "b":
		return pingpong.CheckHost("lab b", args[1:])
	case len(args) > 1:
		return exit.Usagef("lab %s: unexpected argument %q: %s, alone", args[0], args[1], expected)
	}
	for _, word := range labWords {
		if args[0] == word {
			return nil
		}
	}
	return exit.Usagef("lab %q: %s", args[0], expected)
}

// maxLabBytes keeps four such messages far below what can be registered.
const maxLabBytes = 64 << 20

func runLab(ctx context.Context, s *session.Session, call command.Call) error {
	which := call.Args[0]
	if which == "b" {
		return runLabB(ctx, s, call)
	}
	size := command.SizeOf(call.Flags, "size")
	if size < 1 || size > maxLabBytes {
		return exit.Usagef("lab --size %s: expected 1 to %s", configs.FormatSize(size), configs.FormatSize(maxLabBytes))
	}
	r := &Runner{Session: s, Lab: which, Explain: command.IsOn(call.Flags, "explain"), begun: time.Now(), Mark: markOf(s)}
	var o Options
	s.Config.Fill(&o)
	command.Fill(call.Flags, &o.Wrong)
	o.Bytes, o.Begin, o.Done = int(size), r.Begin, r.Done
	var err error
	switch which {
	case "a":
		for _, name := range settingsOfTwo {
			if call.Flags.Changed(name) {
				return exit.Usagef("lab a --%s: lab a is within one process: `lab c` is between two hosts", name)
			}
		}
		err = A(ctx, o)
	case "c":
		list, index, missing := labPlace(s.Config)
		if missing != nil {
			return missing
		}
		r.Rank = &index
		err = C(ctx, index, []string{list}, s.Config.Int("tcp-port"), o)
	}
	return r.conclude(ctx, err)
}

// notOfB are the flags of the other labs that lab b does not take: the stock
// tool's protocol has no place for them.
var notOfB = []string{"list", "index", "rkey", "raddr", "psn", "dest-qpn"}

// labBBytes is the size of the document's messages.
const labBBytes = 1 << 10

// runLabB is the pingpong, explained.
func runLabB(ctx context.Context, s *session.Session, call command.Call) error {
	for _, name := range notOfB {
		if call.Flags.Changed(name) {
			return exit.Usagef("lab b --%s: lab b is ibv_rc_pingpong's protocol, which has no such thing: expected the server's HOST alone, or none", name)
		}
	}
	o := pingpong.Options{
		TCPPort: pingpong.DefaultPort, Size: labBBytes, Depth: pingpong.DefaultDepth, Iters: pingpong.DefaultIters,
	}
	s.Config.Fill(&o)
	if s.Config.IsSet("tcp-port") {
		o.TCPPort = s.Config.Int("tcp-port")
	}
	if call.Flags.Changed("size") {
		o.Size = int(min(command.SizeOf(call.Flags, "size"), pingpong.MaxSize+1))
	}
	p := pingpong.Runner{Session: s, Command: "lab b", Record: "lab"}
	if command.IsOn(call.Flags, "explain") {
		texts := map[pingpong.Moment]string{
			pingpong.BeforeStart: Explain("b: before it begins"), pingpong.BeforeLocal: Explain("b: local address"),
			pingpong.BeforeRemote: Explain("b: remote address"), pingpong.BeforeFigures: Explain("b: figures"),
		}
		p.Explain = func(at pingpong.Moment) error { return s.Out.Aside(render.Faint, strings.Split(texts[at], "\n")...) }
	}
	if len(call.Args) > 1 {
		o.Host = call.Args[1]
	}
	return p.Run(ctx, o)
}

// labPlace says which end this is.
func labPlace(c *configs.Config) (list string, index int, err error) {
	list, index = c.String("list"), c.Int("index")
	switch {
	case list == "":
		return "", 0, exit.Usagef("lab c: no server list: expected --list HOST0,HOST1, the same on both hosts")
	case !c.IsSet("index"):
		return "", 0, exit.Usagef("lab c: no index: expected --index 0 on the host that listens, --index 1 on the one that connects")
	}
	return list, index, nil
}

// Runner prints a lab as it goes.
type Runner struct {
	Session *session.Session
	Lab     string
	Rank    *int
	Explain bool
	begun   time.Time
	Mark    map[bool]string
	Steps   int // that were taken
	Device  string
	Meaning string
	end     func() // of the progress line
}

// marks tick a step off, or not.
var (
	AsciiMarks   = map[bool]string{true: "ok", false: "FAIL"}
	UnicodeMarks = map[bool]string{true: "✓", false: "✗"}
)

// markOf returns the marks that the output can show: a terminal says by its locale
// that it takes UTF-8 (locale(7)); what is no terminal is for grep.
func markOf(s *session.Session) map[bool]string {
	if !render.IsTerminal(s.Stdout) {
		return AsciiMarks
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(name); v != "" {
			v = strings.ToLower(strings.ReplaceAll(v, "-", ""))
			if strings.Contains(v, "utf8") {
				return UnicodeMarks
			}
			return AsciiMarks
		}
	}
	return AsciiMarks
}

// Begin says what a step is about to do, if that was asked for.
func (r *Runner) Begin(step Step) error {
	if r.Explain && r.Session.Out.Format() == render.Table {
		lines := []string{fmt.Sprintf("%d. %s: %s", step.Number, step.Name, step.Call)}
		if step.Number > 1 {
			if err := r.Session.Out.Text("\n"); err != nil {
				return err
			}
		}
		if err := r.Session.Out.Aside(render.Faint, append(lines, strings.Split(step.Explain, "\n")...)...); err != nil {
			return err
		}
	}
	r.end = r.Session.Progress.Clock("lab %s, step %d, %s", r.Lab, step.Number, step.Name)
	return nil
}

// Done shows what has come of a step.
func (r *Runner) Done(step Step) error {
	r.end()
	if step.Err == nil {
		r.Steps++
	}
	if device := step.Values.Get("device"); device != "" {
		r.Device = device
	}
	record := LabStep{
		Command: "lab", OK: step.Err == nil, Lab: r.Lab, Rank: r.Rank, Step: step.Number, Name: step.Name, Call: step.Call,
		Values: valueMap(step.Values), Peer: valueMap(step.Peer), own: step.Values, peer: step.Peer, mark: r.Mark[step.Err == nil],
	}
	if step.Err != nil {
		record.Error, r.Meaning = step.Err.Error(), Meaning(step.Err)
	}
	if r.Explain {
		record.Explain, record.Meaning = oneLine(step.Explain), oneLine(r.Meaning)
	}
	return r.Session.Out.Print(record)
}

func oneLine(text string) string { return strings.ReplaceAll(text, "\n", " ") }

func valueMap(values Values) map[string]string {
	if len(values) == 0 {
		return nil
	}
	m := make(map[string]string, len(values))
	for _, v := range values {
		m[v.Name] = v.Text
	}
	return m
}

// conclude prints the summary, and after a failure what its error means.
func (r *Runner) conclude(ctx context.Context, err error) error {
	if r.end != nil {
		r.end()
	}
	if err == nil || exit.Code(exit.OrInterrupted(ctx, err)) == exit.Critical {
		if printed := r.ExplainFailure(); printed != nil {
			err = errors.Join(err, printed)
		}
		result := LabResult{
			Command: "lab", OK: err == nil, Lab: r.Lab, Rank: r.Rank, Device: r.Device, Steps: r.Steps, Seconds: time.Since(r.begun).Seconds(),
		}
		if printed := r.Session.Out.Print(result); printed != nil {
			err = errors.Join(err, printed)
		}
	}
	if err != nil {
		return fmt.Errorf("lab %s: %w", r.Lab, err)
	}
	return nil
}

// ExplainFailure says what the error of the step that failed means.
func (r *Runner) ExplainFailure() error {
	if !r.Explain || r.Meaning == "" {
		return nil
	}
	return r.Session.Out.Aside(render.Bad, strings.Split(r.Meaning, "\n")...)
}

// LabStep is a step of a lab, with what the live objects of both ends said after it.
type LabStep struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Lab     string `json:"lab"`             // a or c
	Rank    *int   `json:"rank,omitempty"`  // lab c: which end this is
	Step    int    `json:"step" col:"step"` // from 1
	Name    string `json:"name" col:"what|20"`
	Call    string `json:"call"` // the libibverbs functions that it stands for
	// Values are this end's, in lab a queue pair 0's, under libibverbs' names.
	Values map[string]string `json:"values,omitempty" col:"live values"`
	// Peer are the other end's, in lab a queue pair 1's.
	Peer    map[string]string `json:"peer,omitempty"`
	Explain string            `json:"explain,omitempty"` // with --explain
	Error   string            `json:"error,omitempty"`
	Meaning string            `json:"meaning,omitempty"` // of the error, with --explain

	own, peer Values // in order
	mark      string `col:"|4|before=what|verdict"`
}

// Adjust implements render.Adjuster.
func (l LabStep) Adjust(column string, cell *render.Cell) {
	if column != "live values" {
		return
	}
	cell.Text = valuesText(l.own)
	if len(l.peer) > 0 {
		cell.Text = strings.TrimSpace(cell.Text + " | " + l.otherEnd() + ": " + valuesText(l.peer))
	}
	if !l.OK {
		cell.Mood = render.Bad
		cell.Text = strings.TrimSuffix(l.Error+"; "+cell.Text, "; ")
	}
}

func (l LabStep) otherEnd() string {
	if l.Rank == nil {
		return "QP1"
	}
	return "peer"
}

func valuesText(values Values) string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = v.Name + "=" + v.Text
	}
	return strings.Join(list, " ")
}

// LabResult is how a lab ended.
type LabResult struct {
	Command string  `json:"command"`
	OK      bool    `json:"ok" col:"result|verdict"`
	Lab     string  `json:"lab" col:"lab|first"`
	Rank    *int    `json:"rank,omitempty"`
	Device  string  `json:"device" col:"device|last"`
	Steps   int     `json:"steps" col:"steps"` // that went well
	Seconds float64 `json:"seconds" col:"seconds"`
}

// Adjust implements render.Adjuster.
func (l LabResult) Adjust(column string, cell *render.Cell) {
	switch {
	case column == "lab" && l.Rank != nil:
		cell.Text += fmt.Sprintf(", rank %d", *l.Rank)
	case column == "result" && l.OK:
		cell.Text = "ok: all data verified"
	case column == "result":
		cell.Text = "FAILED"
	}
}
