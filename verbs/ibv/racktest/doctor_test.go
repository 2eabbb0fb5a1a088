package racktest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// preflight is a row of doctor.
type preflight struct {
	Check, Verdict, Value, Fix string
	Ranks                      []int
}

func preflights(t *testing.T, text string) (rows []preflight) {
	t.Helper()
	for line := range strings.Lines(text) {
		var p preflight
		if err := json.Unmarshal([]byte(line), &p); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		if p.Check != "" {
			rows = append(rows, p)
		}
	}
	return rows
}

// An interface without an address leaves its device with link-local GIDs, or with none.
func TestDoctorGID(t *testing.T) {
	const node = 3
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		// In this order, since the GIDs have it.
		how := fmt.Sprintf("ip addr add 10.77.0.%d/24 dev eth0 && ip addr add fd77::%x/64 dev eth0 nodad", node, node)
		if _, err := bench.Command(ctx, node, "sh", "-c", how).Output(); err != nil {
			t.Error(err)
		}
	})
	for _, c := range []struct {
		name, change   string
		args           []string
		verdict, value string
	}{
		{"well", "true", nil, "PASS", "10.77.0.3"},
		{"an empty row", "true", []string{"--gid-index", "77"}, "FAIL", "gid-index 77"},
		{"no address", "ip addr flush dev eth0 scope global", nil, "WARN", "fe80::"},
	} {
		t.Run(c.name, func(t *testing.T) {
			inVM(t, node, "sh", "-c", c.change)
			out, _ := tryVM(t, deadline, node, append([]string{binary(t, "ringcli"), "doctor", "--device", "ibv:rxe0", "--output", "json"}, c.args...)...)
			rows := preflights(t, out)
			at := slices.IndexFunc(rows, func(p preflight) bool { return p.Check == "gid" })
			if at < 0 || rows[at].Verdict != c.verdict || !strings.Contains(rows[at].Value, c.value) || (rows[at].Fix == "") != (c.verdict == "PASS") {
				t.Errorf("expected %s with %q\n%s", c.verdict, c.value, out)
			}
		})
	}
}

// Two machines, of which one is an hour ahead.
func TestDoctorClocks(t *testing.T) {
	set := func(how string) {
		t.Helper()
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		if _, err := bench.Command(ctx, 2, "date", "-s", how).Output(); err != nil {
			t.Error(err)
		}
	}
	set("+1 hour")
	t.Cleanup(func() { set("-1 hour") })
	ranks := connect(t, onRXE(1, 2), "-c", "doctor")
	for _, m := range ranks {
		if code := m.code(t, 2*deadline); code == 0 {
			t.Errorf("rank %d: exit code 0 with a warning", m.rank)
		}
	}
	rows := preflights(t, ranks[0].stdout.String())
	if !slices.ContainsFunc(rows, func(p preflight) bool {
		return p.Check == "clocks" && p.Verdict == "WARN" && slices.Equal(p.Ranks, []int{1}) && strings.Contains(p.Value, "ahead of this rank's") && p.Fix != ""
	}) {
		t.Errorf("rank 1's clock is an hour ahead\n%s%s", ranks[0].stdout, ranks[0].stderr)
	}
}
