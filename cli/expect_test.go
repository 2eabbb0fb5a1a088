package cli

import (
	"strings"
	"testing"

	"ringcli/cli/bench"
	"ringcli/cli/exit"
	"ringcli/cli/lines"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/collective"
)

func TestExpect(t *testing.T) {
	zero, three := uint64(0), uint64(3)
	good := bench.Measurement{Command: "all-reduce", OK: true, Bytes: 1 << 20, Protocol: collective.Eager, BusBW: 1.75, Wrong: &zero}
	slow := good
	slow.BusBW, slow.Bytes = 0.5, 8
	bad := good
	bad.Wrong = &three
	healthy, dying := good, good // over ports of 100 Gb/s
	healthy.BusBW, healthy.LinkRate, dying.BusBW, dying.LinkRate = 9, 12.5, 0.1, 12.5
	floor, below := good, good
	floor.Rate, floor.BestBW, below.Rate, below.BestBW = 2, 0.11, 2, 0.09
	unchecked := good
	unchecked.Wrong = nil
	for _, c := range []struct {
		line    string
		results []render.Record
		code    int
		says    string
	}{
		{"busbw >= 1.5", []render.Record{good}, exit.OK, ""},
		{"busbw_GBps>1.5", []render.Record{good}, exit.OK, ""},
		{"busbw >= 1.5", []render.Record{good, slow}, exit.Critical, "expected busbw_GBps >= 1.5: all-reduce gave 0.5, bytes 8, protocol eager"},
		{"--warning busbw >= 1.5", []render.Record{slow}, exit.Warning, "gave 0.5"},
		{"wrong == 0", []render.Record{good}, exit.OK, ""},
		{"wrong==0", []render.Record{bad}, exit.Critical, "gave 3"},
		{"wrong == 0", []render.Record{unchecked}, exit.Usage, "without --check"},
		{"bytes == 1M", []render.Record{good}, exit.OK, ""},
		{"bytes != 1M", []render.Record{good}, exit.Critical, "gave 1048576"},
		{"protocol == eager", []render.Record{good}, exit.OK, ""},
		{"protocol == rendezvous", []render.Record{good}, exit.Critical, "gave eager"},
		{"protocol < eager", []render.Record{good}, exit.Usage, "expected == or !="},
		{"time.p50 <= 10", []render.Record{good}, exit.OK, ""},
		{"ok == true", []render.Record{good}, exit.OK, ""},
		{"--where bytes=8 busbw < 1", []render.Record{good, slow}, exit.OK, ""},
		{"--where bytes=8 busbw > 1", []render.Record{good, slow}, exit.Critical, "gave 0.5"},
		{"--where bytes=9 busbw > 1", []render.Record{good, slow}, exit.Usage, "none of the 2 last results has bytes=9"},
		{"--where bytes busbw > 1", []render.Record{good}, exit.Usage, "expected FIELD=VALUE"},
		{"busbw >= NaN", []render.Record{good}, exit.Usage, "expected a number"},
		{"busbw >= fast", []render.Record{good}, exit.Usage, "expected a number"},
		{"bandwidth > 1", []render.Record{good}, exit.Usage, "busbw_GBps"},
		{"busbw > 1", nil, exit.Usage, "no result"},
		{"--if-there bandwidth > 1", []render.Record{good}, exit.OK, ""},
		{"--if-there --where bytes=9 busbw > 1", []render.Record{good, slow}, exit.OK, ""},
		{"--if-there --where bytes=8 busbw > 1", []render.Record{good, slow}, exit.Critical, "gave 0.5"},
		{"busbw >= 0.5*rate", []render.Record{good}, exit.Usage, "no such field to compare with"},
		{"--if-there busbw >= 0.5*rate", []render.Record{good}, exit.OK, ""},
		{"--if-there busbw >= 0.5*rate", []render.Record{good, dying}, exit.Critical, "expected busbw_GBps >= 0.5*rate, which is 6.25: all-reduce gave 0.1,"},
		{"--if-there best >= 0.05*possible", []render.Record{good}, exit.OK, ""},
		{"best >= 0.05*possible", []render.Record{floor}, exit.OK, ""},
		{"--warning best >= 0.05*possible", []render.Record{below}, exit.Warning, "expected best_GBps >= 0.05*possible, which is 0.1: all-reduce gave 0.09,"},
		{"busbw >= 0.5*rate_GBps", []render.Record{healthy}, exit.OK, ""},
		{"busbw >= half*rate", []render.Record{healthy}, exit.Usage, "no such field"},
		{"busbw", []render.Record{good}, exit.Usage, "expected FIELD RELATION VALUE"},
		{"busbw = 1", []render.Record{good}, exit.Usage, "expected FIELD RELATION VALUE"},
	} {
		s := session.New(nil, t.Output(), nil, nil, nil)
		s.Results, s.Out = c.results, render.New(t.Output(), render.Table)
		err := lines.Run(t.Context(), s, testTable, "expect "+c.line)
		if code := exit.Code(err); code != c.code || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("expect %s: exit code %d, %v; want %d, %q", c.line, code, err, c.code, c.says)
		}
	}
}
