package cli

import (
	"fmt"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"ringcli/cli/exit"
	"ringcli/verbs/verbstest"
)

// Who keeps a ring waiting is named in the window where that happens, as what it is, and
// nobody else: in no window of a calm run anybody is. What the machine keeps waiting, since
// ranks have no CPU, is told as that.
func TestStragglersAreNamed(t *testing.T) { // not beside others
	verbstest.Long(t)
	const last = " --duration 700ms --window 200ms"
	every := func(n int) bool { return n > 0 }
	once := func(n int) bool { return n == 1 }
	for _, c := range []struct {
		what, device, line string
		want               string         // all that is late, but for CPUs
		windows            func(int) bool // in so many
		short              bool
	}{
		{"calm", "shm", "ar --size 64K" + last, "", nil, false},
		{"calm, packets", "soft:lo", "ar --size 64K" + last, "", nil, false},
		{"late to each", "shm", "inject delay 1 30ms; ar --size 64K" + last, "late 1", every, true},
		{"late to each, packets", "soft:lo", "inject delay 1 30ms; ar --size 64K --algorithm ring" + last, "late 1", every, false},
		{"stopped once", "shm", "inject stop 2 200ms; ar --size 64K" + last, "late 2", once, false},
		{"stopped once, packets", "soft:lo", "inject stop 2 200ms; ar --size 64K --algorithm ring" + last, "late 2", once, false},
		{"a slow link", "soft:lo", "inject 'soft: delay 30ms to 2 on 1'; ar --size 64K --algorithm ring" + last, "slow-edge 1 to 2", every, true},
		{"late, not for long", "shm", "inject delay 1 30ms; ar --size 64K --iters 5", "late 1", once, false},
	} {
		if testing.Short() && !c.short {
			continue
		}
		t.Run(c.what, func(t *testing.T) {
			// On a machine whose CPUs are taken that alone is told, or what it does to
			// the others: again, then, since it comes and goes.
			var said string
			for try := range 8 {
				busy := othersRun()
				code, stdout, stderr := finish(t, "local", "-n", "4", "--device", c.device, "--output", "json", "-c", c.line)
				if code != exit.OK {
					t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
				}
				all := objects(t, stdout)
				row := all[len(all)-1]
				rows := 0
				for _, o := range all {
					if o["command"] == "window" {
						rows++
					}
				}
				if w, ok := row["windows"].(map[string]any); ok != strings.Contains(c.line, "--window") || ok && (w["count"] != float64(rows) || w["least_busbw_GBps"].(float64) <= 0) {
					t.Fatalf("%v, and %d rows", row["windows"], rows)
				}
				var who []string
				count := 0
				list, _ := row["late"].([]any)
				for _, l := range list {
					f := l.(map[string]any)
					text := fmt.Sprint(f["kind"], " ", f["rank"])
					if f["to"] != nil {
						text += fmt.Sprint(" to ", f["to"])
					}
					if f["kind"] == "no-cpu" {
						busy = true
						continue
					}
					if count++; !slices.Contains(who, text) {
						who = append(who, text)
					}
				}
				got := strings.Join(who, ", ")
				if got == c.want && (c.windows == nil && count == 0 || c.windows != nil && c.windows(count)) {
					return
				}
				if got == "" && busy && try >= 2 {
					t.Log("the CPUs are taken, and that alone is told")
					return
				}
				said = fmt.Sprintf("%q in %d windows (CPUs taken: %v)\n%s", got, count, busy, stdout)
			}
			t.Errorf("expected %q, eight times: %s", c.want, said)
		})
	}
}

// othersRun tells whether other processes want as many CPUs as there are: the fourth field of
// proc_loadavg(5), which has this one, too.
func othersRun() bool {
	most := 0
	for range 5 {
		text, _ := os.ReadFile("/proc/loadavg")
		var running, all int
		if f := strings.Fields(string(text)); len(f) > 3 {
			_, _ = fmt.Sscanf(f[3], "%d/%d", &running, &all)
		}
		most = max(most, running-1)
		time.Sleep(10 * time.Millisecond)
	}
	return most >= runtime.NumCPU()
}

func TestWindowsThatAreNone(t *testing.T) {
	for line, want := range map[string]string{
		"ar --window 1s": "--window 1s without --duration", "ar --duration 1s --window 1ms": "--window 1ms: expected 100ms or more", "ar --duration 1s --window x": "x",
	} {
		if code, _, stderr := finish(t, "local", "-n", "2", "-c", line); code != exit.Usage || !strings.Contains(stderr, want) {
			t.Errorf("%q: exit code %d, %s: expected %q", line, code, stderr, want)
		}
	}
}
