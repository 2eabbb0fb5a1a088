package tables

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/collective"
	"ringcli/configs"
	"ringcli/ring"
	"ringcli/trace"
)

// Values of the setting table that are no file.
const (
	tableAuto = "auto" // what tune has saved, if it has
	tableNone = "none"
)

// Of reads the file that the setting names. path is empty if there is none to
// be read.
func Of(c *configs.Config) (f File, path string, err error) {
	if _, _, err := keyed(c); err != nil {
		return f, "", err
	}
	switch path = c.String("table"); path {
	case tableNone:
		return f, "", nil
	case tableAuto:
		if path = UserPath(); path == "" {
			return f, "", nil
		}
		f, err = Read(path)
		if errors.Is(err, fs.ErrNotExist) {
			return f, "", nil
		}
		if err != nil {
			err = exit.Usagef("%w; `ringcli tune` writes a new one once it is gone, --table none does without", err)
		}
	default:
		f, err = Read(path)
	}
	return f, path, err
}

// Announcement is what rank 0, whose table counts, says of its own.
type Announcement struct {
	Error  string  `json:"error,omitempty"`
	Path   string  `json:"path,omitempty"`
	Origin string  `json:"origin,omitempty"`
	Given  bool    `json:"given,omitempty"`  // by more than the default
	Tables []Saved `json:"tables,omitempty"` // those for rings of this size
	// Rules come before those of any table, for a reason.
	Rules []collective.Rule `json:"rules,omitempty"`
	Why   string            `json:"why,omitempty"`
}

// Announce is what this rank says of its table; nil if it is not rank 0.
func Announce(c *configs.Config, r *ring.Ring) *Announcement {
	setting := c.Get("table")
	given := c.IsSet("table")
	if r.Rank() > 0 {
		if given {
			trace.Info(trace.Collective, fmt.Sprintf("the table %s (%s) is left alone: rank 0's counts", setting, setting.Origin))
		}
		return nil
	}
	f, path, err := Of(c)
	if err != nil {
		return &Announcement{Error: err.Error()}
	}
	o := &Announcement{Path: path, Origin: setting.Origin.String(), Given: given}
	o.Rules, o.Why, _ = keyed(c) // Of has looked at them
	for _, t := range f.Tables {
		if t.Ranks == 0 || t.Ranks == r.Size() {
			o.Tables = append(o.Tables, t)
		}
	}
	return o
}

// Providers are those of a rank's edges to its neighbours.
func Providers(r *ring.Ring) []string {
	var list []string
	for _, e := range []*ring.Edge{r.Left(), r.Right()} {
		name, _, _ := strings.Cut(e.Local.Device, ":")
		list = append(list, name)
	}
	return list
}

// TableStatus is the table that decides what auto stands for in this ring.
type TableStatus struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	// Table is the file that it is from, at rank 0; empty for the built-in choice.
	Table   string `json:"table" col:"table"`
	Origin  string `json:"origin"` // of the setting table, at rank 0
	Ranks   int    `json:"ranks"`
	Devices string `json:"devices"` // the providers of all edges, such as shm+soft
	Rules   int    `json:"rules" col:"rules"`
	Why     string `json:"why" col:"why"`
}

// Adjust implements render.Adjuster.
func (t TableStatus) Adjust(column string, cell *render.Cell) {
	switch {
	case t.Table != "":
	case column == "table":
		*cell = render.Cell{Text: "built-in", Mood: render.Faint}
	case column == "rules" && t.Rules == 0:
		cell.Text = "-"
	}
}

// choose chooses from what rank 0 announced, on all ranks alike. providers are those of
// all ranks' edges.
func choose(o Announcement, ranks int, providers []string) (collective.Table, TableStatus) {
	slices.Sort(providers)
	devices := strings.Join(slices.Compact(providers), "+")
	status := TableStatus{Command: "status", OK: true, Origin: o.Origin, Ranks: ranks, Devices: devices}
	kind := fmt.Sprintf("%d ranks of %s", ranks, devices)
	if t, ok := (File{o.Tables}).find(ranks, devices); ok {
		status.Table, status.Rules, status.Why = o.Path, len(t.Rules), t.About()
		return t.Table, status
	}
	switch {
	case o.Path == "" && !o.Given:
		status.Why = "`tune` measures a table for " + kind
	case o.Path == "":
		status.Why = "table is none (" + o.Origin + ")"
	default:
		status.Why = o.Path + " has none for " + kind
	}
	return collective.Table{}, status
}

// About says what a table was measured on.
func (t Saved) About() string {
	ranks, devices := "any number of ranks", ""
	if t.Ranks > 0 {
		ranks = fmt.Sprintf("%d ranks", t.Ranks)
	}
	if t.Devices != "" {
		devices = " of " + t.Devices
	}
	if t.Measured.IsZero() {
		return "for " + ranks + devices
	}
	return fmt.Sprintf("measured on %s%s, %s", ranks, devices, t.Measured.Local().Format("2006-01-02 15:04"))
}

// Take chooses the table for a ring from what rank 0 announced and the providers of
// all ranks' edges. A file that was asked for and says nothing about such rings is
// worth a word.
func Take(announced *Announcement, providers []string, ranks int) (collective.Table, TableStatus, error) {
	var o Announcement
	if announced != nil {
		o = *announced
	}
	if o.Error != "" {
		return collective.Table{}, TableStatus{}, exit.Sharedf(exit.Usage, "rank 0: %s", o.Error)
	}
	table, status := choose(o, ranks, providers)
	if len(o.Rules) > 0 {
		table.Rules = slices.Concat(o.Rules, table.Rules)
		status.Rules, status.Why = len(table.Rules), o.Why+"; else "+status.Why
	}
	if status.Table == "" && o.Given && o.Path != "" {
		trace.Warn(trace.Collective, status.Why+": the built-in choice is in force")
	}
	return table, status, nil
}
