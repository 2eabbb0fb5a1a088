package cli

import (
	"encoding/csv"
	"slices"
	"strings"
	"testing"

	"ringcli/cli/exit"
	"ringcli/cli/schema"
	"ringcli/verbs/verbstest"
)

// A stream of CSV is one table, which a reader takes as a whole: each row has the header's
// fields, and none is a header again. What is left out is named, and can be asked for.
func TestCSVIsOneTable(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	for line, want := range map[string]struct {
		column, left string
		rows         int // at least
	}{
		"bench all-reduce -n 2 -b 8 -e 64 --iters 2":                          {"busbw_GBps", "BenchSummary (1)", 8},
		"bench all-reduce -n 2 -b 8 -e 64 --iters 2 --csv-table BenchSummary": {"avg_busbw_GBps", "Measurement (8)", 1},
		"links -n 2":                   {"write_GBps", "LinksVerdict (1)", 2},
		"backends":                     {"library", "Setting (", 3},
		"devices":                      {"provider", "GIDInfo (", 2},
		"devices --csv-table PortInfo": {"active_mtu", "ProviderInfo (", 2},
		"local -n 2 --device shm":      {"checks", "PingResult (", 1},
		"local -n 2 --device shm --csv-table PingResult": {"peer", "Verdict (1)", 2},
		"config": {"origin", "", 20},
	} {
		t.Run(line, func(t *testing.T) {
			p := program(t, append(strings.Fields(line), "--output", "csv")...)
			p.Env = append(p.Env, "RINGCLI_DEVICE=") // self-checks of local have two rings
			p.start(t)
			code := p.end(t, hung)
			stdout, stderr := p.stdout.String(), p.stderr.String()
			rows, err := csv.NewReader(strings.NewReader(stdout)).ReadAll()
			if code != exit.OK || err != nil || len(rows) <= want.rows {
				t.Fatalf("exit code %d, %v, %d rows\n%s%s", code, err, len(rows), stdout, stderr)
			}
			for i, row := range rows {
				if (i == 0) != slices.Contains(row, want.column) {
					t.Errorf("row %d is %q", i, row)
				}
			}
			if strings.Contains(stdout, "\n\n") || !strings.Contains(stderr, want.left) || (want.left == "") != (stderr == "") {
				t.Errorf("stderr says %q of\n%s", stderr, stdout)
			}
		})
	}
	if code, stdout, stderr := finish(t, "devices", "--output", "csv", "--csv-table", "all"); code != exit.OK || strings.Count(stdout, "\n\ncommand,ok,") != 2 || stderr != "" {
		t.Errorf("all: exit code %d\n%s%s", code, stdout, stderr)
	}
	if code, stdout, stderr := finish(t, "devices", "--output", "csv", "--csv-table", "Ports"); code != exit.Usage || stdout != "" || !strings.Contains(stderr, `there is no table "Ports": expected one of auto, all, `) || !strings.Contains(stderr, "PortInfo") {
		t.Errorf("no such table: exit code %d\n%s%s", code, stdout, stderr)
	}
	if got, want := schema.Tables("bench", []string{"all-reduce", "p2p"}), []string{"BenchSummary", "ComparisonSummary", "Measurement", "P2PResult"}; !slices.Equal(got, want) {
		t.Errorf("the tables of bench are %q, want %q", got, want)
	}
}
