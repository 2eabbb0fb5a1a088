package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ringcli/cli/exit"
	"ringcli/configs/codes"
)

// A node in good health has nothing that is not well, and each check has a row.
func TestHealthy(t *testing.T) {
	for _, name := range []string{"hardware", "software", "list"} {
		f := newFake(t)
		switch name {
		case "software":
			f.software()
			f.write("proc/sys/net/core/rmem_max", "8388608")
			f.write("proc/sys/net/core/wmem_max", "8388608")
		case "list":
			f.list(t, "node0,node1", 0)
		}
		rows, err := Examine(t.Context(), f.System, f.asked)
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range rows {
			if !p.OK || p.Value == "" || p.Expected != "" || p.Fix != "" {
				t.Errorf("%s: %+v", name, p)
			}
		}
		if err := verdict(rows); err != nil || len(rows) < 27 {
			t.Errorf("%s: %d rows, %v", name, len(rows), err)
		}
	}
}

// provocation changes a node in good health, and says what a check comes to then.
type provocation struct {
	name    string
	provoke func(*testing.T, *fake)
	check   string
	want    Verdict
	code    codes.Code
	says    string // in the value
	fix     string // at its beginning
}

func (c provocation) look(t *testing.T) {
	f := newFake(t)
	c.provoke(t, f)
	rows, err := Examine(t.Context(), f.System, f.asked)
	if err != nil {
		t.Fatal(err)
	}
	p := find(t, rows, c.check)
	if p.Verdict != c.want || c.code != "" && p.Code != c.code || !strings.Contains(p.Value, c.says) || !strings.HasPrefix(p.Fix, c.fix) {
		t.Errorf("%+v: expected %s %s, value with %q, fix %q", p, c.want, c.code, c.says, c.fix)
	}
	if bad := p.Verdict == Fail || p.Verdict == Warn; bad == p.OK && !slices.Contains(clockChecks, c.check) || bad && (p.Fix == "" || p.Code == "") || !bad && (p.Fix != "" || p.Expected != "") {
		t.Errorf("%+v: what is not well has a fix and a code, and what is well has none", p)
	}
}

// provocations are those of all rooms, each beside its own.
var provocations = slices.Concat(portsCases, pciCases, socketsCases, firewallCases, namesCases, routesCases, limitsCases, cgroupCases, gpuCases)

// Each check is provoked to each verdict that it can come to.
func TestProvoked(t *testing.T) {
	for _, c := range provocations {
		t.Run(c.name, func(t *testing.T) { synctest.Test(t, c.look) })
	}
}

// informing are checks that find no fault.
var informing = []string{"transport", "rdma-tools", "nccl-debug"}

// No check is without a case in which it is not well.
func TestEachCheckIsProvoked(t *testing.T) {
	f := newFake(t)
	rows, err := Examine(t.Context(), f.System, f.asked)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range rows {
		if !slices.Contains(informing, p.Check) && !slices.ContainsFunc(provocations, func(c provocation) bool { return c.check == p.Check && (c.want == Fail || c.want == Warn) }) {
			t.Errorf("no case provokes %s", p.Check)
		}
	}
}

// The graver verdict decides, and all are named.
func TestVerdict(t *testing.T) {
	warned := finding(Warn, "clock", "", "not synchronised")
	broken := finding(Fail, "port", "ibv:mlx5_0/1", "DOWN")
	for _, c := range []struct {
		rows []Preflight
		code int
		text string
	}{
		{[]Preflight{pass("gid", "", "x"), skip("acs", "", "y")}, exit.OK, ""},
		// A clock misleads readers of logs: a preflight with nothing else is well.
		{[]Preflight{pass("gid", "", "x"), warned}, exit.OK, ""},
		{[]Preflight{pass("gid", "", "x"), warned, finding(Warn, "mtu", "", "512")}, exit.Warning, "doctor: warnings: clock, mtu (1 passed, 0 skipped, 2 warnings, 0 failed)"},
		{[]Preflight{warned, broken}, exit.Critical, "doctor: failed: port of ibv:mlx5_0/1; warnings: clock (0 passed, 0 skipped, 1 warning, 1 failed)"},
	} {
		err := verdict(c.rows)
		text := ""
		if err != nil {
			text = err.Error()
			if code, ok := codes.Of(err); !ok || code != codes.Preflight {
				t.Errorf("%v: code %q", err, code)
			}
		}
		if exit.Code(err) != c.code || text != c.text {
			t.Errorf("%d %q: expected %d %q", exit.Code(err), text, c.code, c.text)
		}
	}
}

// Ranks that found the same share a row; checks in which they differ come first, and of each
// the minority.
func TestMerge(t *testing.T) {
	mine := func(rank int) []Preflight {
		rows := []Preflight{pass("host-name", fmt.Sprintf("node%d", rank), "10.0.0.%d", rank), pass("memlock", "", "unlimited"), finding(Warn, "clock", "", "not synchronised")}
		if rank == 2 {
			rows[1] = finding(Fail, "memlock", "", "64 KiB").but(codes.Memlock, "unlimited", raiseMemlock)
		}
		return rows
	}
	var told []string
	for _, p := range merge([][]Preflight{mine(0), mine(1), mine(2), mine(3)}) {
		told = append(told, fmt.Sprintf("%v %s %s %s %s", p.Ranks, p.Verdict, p.Check, p.Of, p.Value))
	}
	want := []string{
		"[2] FAIL memlock  64 KiB", "[0 1 3] PASS memlock  unlimited",
		"[0 1 2 3] WARN clock  not synchronised",
		"[0 1 2 3] PASS host-name  10.0.0.0; other ranks differ",
	}
	if !slices.Equal(told, want) {
		t.Errorf("%q\nexpected\n%q", told, want)
	}
}

// A clock is elsewhere if it says what was not the time while all read theirs.
func TestClocks(t *testing.T) {
	begun := time.Date(2026, 11, 23, 5, 0, 0, 0, time.UTC)
	at := func(s float64) time.Time { return begun.Add(time.Duration(s * float64(time.Second))) }
	for _, c := range []struct {
		clocks []time.Time
		told   []string
	}{
		{[]time.Time{at(0.1), at(-0.9), at(1.4)}, []string{"[0 1 2] PASS within 1.5s of each other"}},
		{[]time.Time{at(0.1), at(4), at(0.2), at(-3600)}, []string{"[1] WARN 3.5s ahead of this rank's", "[3] WARN 1h0m0s behind this rank's"}},
	} {
		var told []string
		for _, p := range (readings{begun, at(0.5), c.clocks}).rows() {
			told = append(told, fmt.Sprintf("%v %s %s", p.Ranks, p.Verdict, p.Value))
			if p.well() != (p.Fix == "") {
				t.Errorf("%+v", p)
			}
		}
		if !slices.Equal(told, c.told) {
			t.Errorf("%q, expected %q", told, c.told)
		}
	}
}

// Who is interrupted learns nothing.
func TestInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	f := newFake(t)
	if rows, err := Examine(ctx, f.System, f.asked); !errors.Is(err, context.Canceled) || rows != nil {
		t.Errorf("%d rows, %v", len(rows), err)
	}
}
