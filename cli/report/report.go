package report

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"ringcli/cli/about"
	"ringcli/cli/command"
	"ringcli/cli/doctor"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/trace"
)

const name = "report"

// Packed is an archive that was written.
type Packed struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	File    string `json:"file" col:"file|last"`
	Bytes   int64  `json:"bytes" col:"bytes"`
	Ranks   int    `json:"ranks" col:"ranks"`       // whose nodes are in it
	Files   int    `json:"files" col:"files"`       // in it, the manifests apart
	LeftOut int    `json:"left_out" col:"left out"` // lines of this rank's manifest about what is not in it
}

// About is what a report is of, besides the node that it is made on.
type About struct {
	Session *session.Session
	Table   *command.Table
	Files   fs.FS // of the node, from the root on
	Environ []string
	Found   []doctor.Preflight
	Records []string // files of recordings
	Results []string // other files
	// Recorder has this process's own flight recorder in it.
	Recorder bool
	// Failure is why the ring did not come up; nil if the report is not about that.
	Failure error
}

// printed is what a command prints as JSON.
func (a About) printed(run func(*session.Session) error) ([]byte, error) {
	var b bytes.Buffer
	own := *a.Session
	own.Out = render.New(&b, render.JSON)
	err := run(&own)
	return b.Bytes(), err
}

func (a About) command(ctx context.Context, of string) ([]byte, error) {
	c, _ := a.Table.Find(of, command.Process)
	flags := pflag.NewFlagSet(of, pflag.ContinueOnError)
	if c.Flags != nil {
		c.Flags(flags)
	}
	return a.printed(func(s *session.Session) error {
		return c.Run(ctx, s, command.Call{Name: c.Name, Flags: flags, Table: a.Table})
	})
}

// parts are the files of a report, in the order of the archive.
func (a About) parts() []part {
	parts := []part{
		{"version.json", "this program, as `ringcli version --output json` tells", func(ctx context.Context) ([]byte, error) { return a.command(ctx, "version") }},
		{"config.json", "settings in force, and where each came from", func(context.Context) ([]byte, error) { return a.printed(about.PrintConfig) }},
		{"environment.txt", "variables of ringcli and of the peers' stacks", func(context.Context) ([]byte, error) { return environment(a.Environ), nil }},
		{"devices.json", "devices, ports and GIDs, and why a provider has none", func(ctx context.Context) ([]byte, error) { return a.command(ctx, "devices") }},
		{"doctor.json", "what doctor found", func(context.Context) ([]byte, error) {
			return a.printed(func(s *session.Session) error {
				if err := doctor.Print(s, a.Found, false); !doctor.IsVerdict(err) {
					return err
				}
				return nil // that a node is not well is what a report is for
			})
		}},
	}
	if a.Failure != nil {
		parts = append(parts, part{"failure.txt", "why the ring did not come up", func(context.Context) ([]byte, error) { return []byte(a.Failure.Error() + "\n"), nil }})
	}
	parts = append(parts, nodeParts(a.Files)...)
	if a.Recorder {
		parts = append(parts, part{"recorder.json", "this rank's flight recorder: `ringcli trace merge` and `show` take it", func(context.Context) ([]byte, error) {
			var b bytes.Buffer
			err := trace.WriteRecordings(&b, []trace.Recording{trace.Record()})
			return b.Bytes(), err
		}})
	}
	told := map[string]int{}
	for _, given := range []struct {
		dir, what string
		files     []string
	}{{"records", "recording that was given: ", a.Records}, {"results", "file that was given: ", a.Results}} {
		for _, file := range given.files {
			as := given.dir + "/" + filepath.Base(file)
			if told[as]++; told[as] > 1 {
				as = fmt.Sprintf("%s/%d-%s", given.dir, told[as], filepath.Base(file))
			}
			parts = append(parts, part{as, given.what + file, func(context.Context) ([]byte, error) { return readFile(file) }})
		}
	}
	return parts
}

// checkGiven refuses files that are not there before anything is looked at.
func (a About) checkGiven() error {
	for _, files := range [][]string{a.Records, a.Results} {
		for _, file := range files {
			if f, err := os.Stat(file); err != nil {
				return exit.Usagef("%s: %w: expected a file to pack", name, err)
			} else if !f.Mode().IsRegular() {
				return exit.Usagef("%s: %s is %s: expected a regular file", name, file, f.Mode())
			}
		}
	}
	for _, file := range a.Records {
		if _, err := trace.ReadFile(file); err != nil {
			return exit.Usagef("%s: --record %s: %w", name, file, err)
		}
	}
	return nil
}

var plain = regexp.MustCompile(`[^A-Za-z0-9.-]+`)

// folderOf is the name of the archive and of the folder in it.
func folderOf(host string, now time.Time) string {
	return "ringcli-report-" + strings.Trim(plain.ReplaceAllString(cmp.Or(host, "node"), "-"), "-.") + "-" + now.UTC().Format("20060102T150405Z")
}

// toStdout is --out for standard output.
const toStdout = "-"

// checkLine refuses what no ring is needed for.
func checkLine(_ context.Context, _ *session.Session, call command.Call, _ int) error {
	if command.TextOf(call.Flags, "out") == toStdout {
		return exit.Usagef("--out -: expected a file: other lines print to standard output, too; `ringcli report --out -` packs one node")
	}
	return nil
}

// target is where the archive goes: refused before work begins, if it cannot go there.
func target(s *session.Session, call command.Call, folder string) (string, error) {
	out := command.TextOf(call.Flags, "out")
	switch {
	case out == "" && call.Flags.Changed("out"):
		return "", exit.Usagef("--out \"\": expected a file, or - for standard output; is a variable not set?")
	case out == "":
		out = folder + ".tar.gz"
	case out == toStdout && trace.IsTerminal(s.Stdout):
		return "", exit.Usagef("--out -: expected standard output to be a file or a pipe, since an archive is no text")
	case out == toStdout:
		return out, nil
	}
	if err := render.CheckReplaceable("--out", out); err != nil {
		return "", err
	}
	if _, err := os.Lstat(out); err == nil && !command.IsOn(call.Flags, "force") {
		return "", exit.Usagef("--out %s: it is there: expected another name, or --force to replace it", out)
	}
	return out, nil
}

// pack writes what a report of this node is.
func (a About) pack(ctx context.Context, w io.Writer, folder, title string, now time.Time) (Packed, error) {
	z := newArchive(w, folder, now, a.Session.Secrets.Forms(a.Session.Config))
	err := z.add(ctx, a.parts())
	if err == nil {
		err = z.close(title)
	}
	return Packed{Command: name, OK: true, Ranks: 1, Files: z.packed, LeftOut: z.leftCount}, err
}

func aboutOf(s *session.Session, call command.Call) About {
	return About{Session: s, Table: call.Table, Files: os.DirFS("/"), Environ: os.Environ(), Results: call.Args}
}

func titleOf(host string, now time.Time) string {
	return fmt.Sprintf("%s of %s, %s", name, host, now.UTC().Format(time.RFC3339))
}

func run(ctx context.Context, s *session.Session, call command.Call) error {
	host, _ := os.Hostname() // without a name it is "node"
	now := time.Now()
	folder := folderOf(host, now)
	if i := s.Config.Int("index"); i >= 0 && s.Config.String("list") != "" { // of several on a host
		folder = folderOf(fmt.Sprintf("%s-rank%d", host, i), now)
	}
	out, err := target(s, call, folder)
	if err != nil {
		return err
	}
	a := aboutOf(s, call)
	a.Records, _ = call.Flags.GetStringArray("record") // as it was declared
	if err := a.checkGiven(); err != nil {
		return err
	}
	if a.Found, err = doctor.Look(ctx, s, command.NumberOf(call.Flags, "ranks")); err != nil {
		return err
	}
	var p Packed
	write := func(w io.Writer) (err error) {
		p, err = a.pack(ctx, w, folder, titleOf(host, now), now)
		return err
	}
	if out == toStdout {
		return write(s.Stdout)
	}
	if err := render.WriteFile(name, out, write); err != nil {
		return exit.OrInterrupted(ctx, err)
	}
	return p.print(s, out)
}

// print shows what was written, and how to look into it.
func (p Packed) print(s *session.Session, out string) error {
	info, err := os.Stat(out)
	if err != nil {
		return err
	}
	p.File, p.Bytes = out, info.Size()
	return errors.Join(s.Out.Print(p), s.Out.Note(render.Faint, "tar -xzOf %s --wildcards '*/%s' shows what is in it, and what was left out", out, manifest))
}

// OnFailure packs this node into the file that --report-on-failure names, if it does, since the ring
// did not come up.
func OnFailure(ctx context.Context, s *session.Session, t *command.Table, why error) error {
	out := s.ReportOnFailure()
	if out == "" || ctx.Err() != nil {
		return nil
	}
	host, _ := os.Hostname() // without a name it is "node"
	now := time.Now()
	a := About{Session: s, Table: t, Files: os.DirFS("/"), Environ: os.Environ(), Recorder: true, Failure: why}
	var err error
	if a.Found, err = doctor.Look(ctx, s, 0); err != nil {
		a.Failure = errors.Join(why, err) // and the rest is packed
	}
	if err := render.WriteFile("--report-on-failure", out, func(w io.Writer) error {
		_, err := a.pack(ctx, w, folderOf(host, now), titleOf(host, now), now)
		return err
	}); err != nil {
		return exit.OrInterrupted(ctx, err)
	}
	return render.New(s.Stderr, render.Table).Complain(render.Fair, fmt.Sprintf("the report of this node is in %s: tar -xzOf %[1]s --wildcards '*/%s' shows what is in it", out, manifest))
}

func outFlags(fs *pflag.FlagSet) {
	fs.StringP("out", "o", "", "file that is written, - for standard output (default: ringcli-report-HOST-TIME.tar.gz)")
	command.Completes(fs, "out", "files")
	fs.Bool("force", false, "replace the file of --out")
}

const contents = `Packed are: version and settings with where each came from, the variables
RINGCLI_*, NCCL_*, UCX_* and OMPI_*, devices, ports and GIDs, what doctor found,
addresses, routes, kernel, modules and limits, counters of ports, and the files
that are given, such as results of links and bench. MANIFEST says of each file
what it is, and what was left out and why.

report removes secrets, and writes [left out: RULE] in their place: the ring's
token in any form (upper or lower case, base64, hexadecimal, escaped), values of
names such as password or token, private keys, keys of a known form, passwords
in addresses and in command lines. If the end of a value is in doubt, the rest
of the line and the lines indented deeper are removed. JSON stays valid JSON.
MANIFEST counts what each rule removed from each file. A file that is not UTF-8
text is left out, since it cannot be searched. No search finds every secret:
look through the archive before you send it.`

// Rows are `ringcli report`, and the line of a ring's ranks.
func Rows() []command.Row {
	row := command.Row{
		Name: name, Group: command.GroupLook, Args: "[FILE...]", Files: true,
		CheckArgs: func([]string) error { return nil }, Complete: func([]string) []string { return nil },
	}
	process, line := row, row
	process.Where, process.Run, process.Settings = command.Process, run, doctor.Settings
	process.Summary = "Pack what a ticket needs of this node, without secrets"
	process.Long = "Packs what a ticket about this node needs into one archive (tar, gzip).\n\n" + contents +
		"\n\nOf all nodes at once: ringcli connect --index I --list A,B -c report"
	process.Example = "  ringcli report --record /tmp/ringcli-rank2.trace.json links.json\n  ringcli report --out - | ssh desk 'cat > node3.tar.gz'"
	process.Flags = func(fs *pflag.FlagSet) {
		outFlags(fs)
		fs.StringArray("record", nil, "`file` of a flight recorder, as a failed rank or trace dump has left it; may be repeated")
		command.Completes(fs, "record", "files")
		doctor.RanksFlag(fs)
	}
	line.Where, line.Needs, line.Diagnoses, line.Check, line.Run = command.Line, command.Ready, true, checkLine, runAll
	line.Summary = "Pack what a ticket needs of all nodes, without secrets"
	line.Long = `Has each rank pack what a ticket needs of its node, as ` + "`ringcli report`" + ` does.
Rank 0 gathers the parts over the control ring and writes the archive, with a
folder for each rank; FILEs are rank 0's.

` + contents
	line.Example = "  ringcli local -n 4 -c 'report --recorder'"
	line.Flags = func(fs *pflag.FlagSet) {
		outFlags(fs)
		fs.Bool("recorder", false, "pack each rank's flight recorder too")
	}
	return []command.Row{process, line}
}
