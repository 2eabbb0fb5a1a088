package cli

import (
	"context"
	"strings"
	"testing"

	"ringcli/cli/render"
)

func TestExpect(t *testing.T) {
	zero, three := uint64(0), uint64(3)
	good := Measurement{Command: "all-reduce", OK: true, Bytes: 1 << 20, Protocol: "eager", BusBW: 1.75, Wrong: &zero}
	slow := good
	slow.BusBW, slow.Bytes = 0.5, 8
	bad := good
	bad.Wrong = &three
	unchecked := good
	unchecked.Wrong = nil
	for _, c := range []struct {
		line    string
		results []render.Record
		code    int
		says    string
	}{
		{"busbw >= 1.5", []render.Record{good}, ExitOK, ""},
		{"busbw_GBps>1.5", []render.Record{good}, ExitOK, ""},
		{"busbw >= 1.5", []render.Record{good, slow}, ExitCritical, "expected busbw_GBps >= 1.5: all-reduce gave 0.5, bytes 8, protocol eager"},
		{"--warning busbw >= 1.5", []render.Record{slow}, ExitWarning, "gave 0.5"},
		{"wrong == 0", []render.Record{good}, ExitOK, ""},
		{"wrong==0", []render.Record{bad}, ExitCritical, "gave 3"},
		{"wrong == 0", []render.Record{unchecked}, ExitUsage, "without --check"},
		{"bytes == 1M", []render.Record{good}, ExitOK, ""},
		{"bytes != 1M", []render.Record{good}, ExitCritical, "gave 1048576"},
		{"protocol == eager", []render.Record{good}, ExitOK, ""},
		{"protocol == rendezvous", []render.Record{good}, ExitCritical, "gave eager"},
		{"protocol < eager", []render.Record{good}, ExitUsage, "expected == or !="},
		{"time.p50 <= 10", []render.Record{good}, ExitOK, ""},
		{"ok == true", []render.Record{good}, ExitOK, ""},
		{"--where bytes=8 busbw < 1", []render.Record{good, slow}, ExitOK, ""},
		{"--where bytes=8 busbw > 1", []render.Record{good, slow}, ExitCritical, "gave 0.5"},
		{"--where bytes=9 busbw > 1", []render.Record{good, slow}, ExitUsage, "none of the 2 last results has bytes=9"},
		{"--where bytes busbw > 1", []render.Record{good}, ExitUsage, "expected FIELD=VALUE"},
		{"busbw >= NaN", []render.Record{good}, ExitUsage, "expected a number"},
		{"busbw >= fast", []render.Record{good}, ExitUsage, "expected a number"},
		{"bandwidth > 1", []render.Record{good}, ExitUsage, "busbw_GBps"},
		{"busbw > 1", nil, ExitUsage, "no result"},
		{"busbw", []render.Record{good}, ExitUsage, "expected FIELD RELATION VALUE"},
		{"busbw = 1", []render.Record{good}, ExitUsage, "expected FIELD RELATION VALUE"},
	} {
		s := newSession(nil, nil, nil, nil, nil)
		s.results, s.Out = c.results, render.New(t.Output(), render.Table)
		err := eachCommand(t.Context(), testTable, "expect "+c.line, t.Output(), func(ctx context.Context, c Command, call Call) error { return s.perform(ctx, c, call) }, nil)
		if code := ExitCode(err); code != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("expect %s: exit code %d, %v; want %d, %q", c.line, code, err, c.code, c.says)
		}
	}
}
