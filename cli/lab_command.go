package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/lab"
	"ringcli/cli/pingpong"
	"ringcli/cli/render"
	"ringcli/configs"
)

// settingsOfTwo are the settings that are about two hosts.
var settingsOfTwo = []string{"list", "index", "tcp-port"}

var labWords = []string{"a", "b", "c"}

// labBytes is the default length of a lab's messages: more than one packet at
// most path MTUs, and quickly compared.
const labBytes = 8 << 10

// labCommands is `ringcli lab`.
func labCommands() []Command {
	return []Command{{
		Name: "lab", Group: groupRing, Where: Process,
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
		Settings: slices.Concat(settingsOfTwo, configs.NamesOf(lab.Options{})),
		Flags: func(fs *pflag.FlagSet) {
			fs.Bool("explain", false, "say before each step what it does and why")
			sizeFlag(fs, "size", labBytes, "bytes of each message (lab b: 1K)")
			optionalFlag(fs, "rkey", 0, 1<<32-1, "rkey to use in WRITE and READ (the peer's)")
			optionalFlag(fs, "raddr", 0, 1<<63-1, "address to WRITE to and READ from (the peer's region)")
			optionalFlag(fs, "psn", 0, 1<<24-1, "PSN to expect first, rq_psn (the peer's)")
			optionalFlag(fs, "dest-qpn", 0, 1<<24-1, "queue pair to talk to, dest_qp_num (the peer's)")
		},
		Run: runLab,
	}}
}

func checkLab(args []string) error {
	expected := "expected one of " + strings.Join(labWords, ", ")
	switch {
	case len(args) == 0:
		return usageError("lab: which one? %s", expected)
	case args[0] == "b":
		return checkHost("lab b", args[1:])
	case len(args) > 1:
		return usageError("lab %s: unexpected argument %q: %s, alone", args[0], args[1], expected)
	}
	for _, word := range labWords {
		if args[0] == word {
			return nil
		}
	}
	return usageError("lab %q: %s", args[0], expected)
}

// maxLabBytes keeps four such messages far below what can be registered.
const maxLabBytes = 64 << 20

func runLab(ctx context.Context, s *Session, call Call) error {
	which := call.Args[0]
	if which == "b" {
		return runLabB(ctx, s, call)
	}
	size := sizeOf(call.Flags, "size")
	if size < 1 || size > maxLabBytes {
		return usageError("lab --size %s: expected 1 to %s", configs.FormatSize(size), configs.FormatSize(maxLabBytes))
	}
	r := &labRun{session: s, lab: which, explain: isOn(call.Flags, "explain"), begun: time.Now(), mark: markOf(s)}
	o := labOptions(s.Config, call.Flags)
	o.Bytes, o.Begin, o.Done = int(size), r.begin, r.done
	var err error
	switch which {
	case "a":
		for _, name := range settingsOfTwo {
			if call.Flags.Changed(name) {
				return usageError("lab a --%s: lab a is within one process: `lab c` is between two hosts", name)
			}
		}
		err = lab.A(ctx, o)
	case "c":
		list, index, missing := labPlace(s.Config)
		if missing != nil {
			return missing
		}
		r.rank = &index
		err = lab.C(ctx, index, []string{list}, s.Config.Int("tcp-port"), o)
	}
	return r.conclude(ctx, err)
}

// notOfB are the flags of the other labs that lab b does not take: the stock
// tool's protocol has no place for them.
var notOfB = []string{"list", "index", "rkey", "raddr", "psn", "dest-qpn"}

// labBBytes is the size of the document's messages.
const labBBytes = 1 << 10

// runLabB is the pingpong, explained.
func runLabB(ctx context.Context, s *Session, call Call) error {
	for _, name := range notOfB {
		if call.Flags.Changed(name) {
			return usageError("lab b --%s: lab b is ibv_rc_pingpong's protocol, which has no such thing: expected the server's HOST alone, or none", name)
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
		o.Size = int(min(sizeOf(call.Flags, "size"), maxPingpong+1))
	}
	p := pingpongRun{session: s, command: "lab b", record: "lab"}
	if isOn(call.Flags, "explain") {
		texts := map[moment]string{
			beforeStart: lab.Explain("b: before it begins"), beforeLocal: lab.Explain("b: local address"),
			beforeRemote: lab.Explain("b: remote address"), beforeFigures: lab.Explain("b: figures"),
		}
		p.explain = func(at moment) error { return s.Out.Aside(render.Faint, strings.Split(texts[at], "\n")...) }
	}
	if len(call.Args) > 1 {
		o.Host = call.Args[1]
	}
	return p.run(ctx, o)
}

// labPlace says which end this is.
func labPlace(c *configs.Config) (list string, index int, err error) {
	list, index = c.String("list"), c.Int("index")
	switch {
	case list == "":
		return "", 0, usageError("lab c: no server list: expected --list HOST0,HOST1, the same on both hosts")
	case !c.IsSet("index"):
		return "", 0, usageError("lab c: no index: expected --index 0 on the host that listens, --index 1 on the one that connects")
	}
	return list, index, nil
}

func labOptions(c *configs.Config, fs *pflag.FlagSet) lab.Options {
	o := lab.Options{Wrong: lab.Wrong{
		DestQPN: optionalOf[uint32](fs, "dest-qpn"), PSN: optionalOf[uint32](fs, "psn"),
		RAddr: optionalOf[uint64](fs, "raddr"), RKey: optionalOf[uint32](fs, "rkey"),
	}}
	c.Fill(&o)
	return o
}

// optionalOf is the value of an optional flag; nil if it was not given.
func optionalOf[T uint32 | uint64](fs *pflag.FlagSet, name string) *T {
	p := given[int64](fs, name)
	if p == nil {
		return nil
	}
	v := T(*p)
	return &v
}

// labRun prints a lab as it goes.
type labRun struct {
	session *Session
	lab     string
	rank    *int
	explain bool
	begun   time.Time
	mark    map[bool]string
	steps   int // that were taken
	device  string
	meaning string
	end     func() // of the progress line
}

// marks tick a step off, or not.
var (
	asciiMarks   = map[bool]string{true: "ok", false: "FAIL"}
	unicodeMarks = map[bool]string{true: "✓", false: "✗"}
)

// markOf returns the marks that the output can show: a terminal says by its locale
// that it takes UTF-8 (locale(7)); what is no terminal is for grep.
func markOf(s *Session) map[bool]string {
	if !render.IsTerminal(s.stdout) {
		return asciiMarks
	}
	for _, name := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := os.Getenv(name); v != "" {
			v = strings.ToLower(strings.ReplaceAll(v, "-", ""))
			if strings.Contains(v, "utf8") {
				return unicodeMarks
			}
			return asciiMarks
		}
	}
	return asciiMarks
}

// begin says what a step is about to do, if that was asked for.
func (r *labRun) begin(step lab.Step) error {
	if r.explain && r.session.Out.Format() == render.Table {
		lines := []string{fmt.Sprintf("%d. %s: %s", step.Number, step.Name, step.Call)}
		if step.Number > 1 {
			if err := r.session.Out.Text("\n"); err != nil {
				return err
			}
		}
		if err := r.session.Out.Aside(render.Faint, append(lines, strings.Split(step.Explain, "\n")...)...); err != nil {
			return err
		}
	}
	r.end = r.session.Progress.Clock("lab %s, step %d, %s", r.lab, step.Number, step.Name)
	return nil
}

// done shows what has come of a step.
func (r *labRun) done(step lab.Step) error {
	r.end()
	if step.Err == nil {
		r.steps++
	}
	if device := step.Values.Get("device"); device != "" {
		r.device = device
	}
	record := LabStep{
		Command: "lab", OK: step.Err == nil, Lab: r.lab, Rank: r.rank, Step: step.Number, Name: step.Name, Call: step.Call,
		Values: valueMap(step.Values), Peer: valueMap(step.Peer), own: step.Values, peer: step.Peer, mark: r.mark[step.Err == nil],
	}
	if step.Err != nil {
		record.Error, r.meaning = step.Err.Error(), lab.Meaning(step.Err)
	}
	if r.explain {
		record.Explain, record.Meaning = oneLine(step.Explain), oneLine(r.meaning)
	}
	return r.session.Out.Print(record)
}

func oneLine(text string) string { return strings.ReplaceAll(text, "\n", " ") }

func valueMap(values lab.Values) map[string]string {
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
func (r *labRun) conclude(ctx context.Context, err error) error {
	if r.end != nil {
		r.end()
	}
	if err == nil || ExitCode(interrupted(ctx, err)) == ExitCritical {
		if printed := r.explainFailure(); printed != nil {
			err = errors.Join(err, printed)
		}
		result := LabResult{
			Command: "lab", OK: err == nil, Lab: r.lab, Rank: r.rank, Device: r.device, Steps: r.steps, Seconds: time.Since(r.begun).Seconds(),
		}
		if printed := r.session.Out.Print(result); printed != nil {
			err = errors.Join(err, printed)
		}
	}
	if err != nil {
		return fmt.Errorf("lab %s: %w", r.lab, err)
	}
	return nil
}

// explainFailure says what the error of the step that failed means.
func (r *labRun) explainFailure() error {
	if !r.explain || r.meaning == "" {
		return nil
	}
	return r.session.Out.Aside(render.Bad, strings.Split(r.meaning, "\n")...)
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

	own, peer lab.Values // in order
	mark      string     `col:"|4|before=what|verdict"`
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

func valuesText(values lab.Values) string {
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
