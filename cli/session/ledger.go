package session

import (
	"os"

	"github.com/spf13/pflag"

	"ringcli/cli/ledger"
	"ringcli/cli/render"
)

// reportSetting names the file of a report on a bring-up that has failed.
const reportSetting = "report-on-failure"

// ReportOnFailure is the file of the report of this rank's node if the ring does not come up; "" for
// none. Of the ranks of `local`, which are on one node, the first writes one that has no rank in it.
func (s *Session) ReportOnFailure() string {
	file, index := s.Config.String(reportSetting), s.Config.Int("index")
	own := ledger.NameOf(file, index)
	if own == file && s.Parent != nil && index > 0 {
		return ""
	}
	return own
}

// OpenLedger keeps what a run finds from here on, if a file is to be made of it. A child of
// `local` leaves that to its parent.
func (s *Session) OpenLedger(flags *pflag.FlagSet, run ledger.Run) (err error) {
	files := ledger.Files{JUnit: s.Config.String("junit"), Metrics: s.Config.String("metrics"), Log: s.Config.String("log-file"),
		LogMebibytes: int(s.Config.Size("log-size") >> 20)}
	if flags.Lookup(HostLists[0]) != nil { // other commands would empty them
		files.Good, files.Bad = s.Config.String(HostLists[0]), s.Config.String(HostLists[1])
	}
	if flags.Lookup(reportSetting) != nil {
		files.Report = s.Config.String(reportSetting)
	}
	if flags.Lookup(ParentFlag) == nil || !flags.Changed(ParentFlag) {
		s.Ledger, err = ledger.Open(files, run, s.Config.Int("index"))
	} else if fd, err := flags.GetInt(LedgerFlag); err == nil && fd >= 3 {
		s.Ledger = ledger.Send(os.NewFile(uintptr(fd), "pipe to the parent's ledger"), files.Log != "")
	}
	return err
}

// Printer returns one for results, which the ledger keeps too.
func (s *Session) Printer() *render.Printer {
	p := render.New(s.Stdout, render.Format(s.Config.String("output")))
	if table := s.Config.String("csv-table"); table != render.FirstTable || !s.Interactive { // a shell's lines are no stream
		p.SetTable(table)
	}
	if s.Ledger != nil {
		p.Keep = func(r render.Record) { s.Ledger.Add(r) }
	}
	return p
}
