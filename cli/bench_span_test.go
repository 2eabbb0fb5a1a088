package cli

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ringcli/cli/exit"
	"ringcli/verbs/cpu"
	"ringcli/verbs/verbstest"
)

// What nobody says how often to measure is measured for long enough, in batches whose
// spread is shown; what is asked for is done, and no more.
func TestShortMessagesAreMeasuredForLong(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	run := func(args ...string) []map[string]any {
		t.Helper()
		p := program(t, append(args, "--output", "json")...)
		p.Env = append(p.Env, benchSpan+"=50ms")
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		if code := p.end(t, hung); code != exit.OK {
			t.Fatalf("%q: exit code %d\n%s%s", args, code, p.stdout.String(), p.stderr.String())
		}
		return objects(t, p.stdout.String())
	}
	for _, c := range []struct {
		args  []string
		iters float64 // 0: more than as many as at least
	}{
		{[]string{"bench", "ar", "-n", "2", "-b", "8", "-e", "8"}, 0},
		{[]string{"bench", "ar", "-n", "2", "-b", "8", "-e", "8", "-w", "0", "-m", "2", "-c", "0"}, 0},
		{[]string{"bench", "ar", "-n", "2", "-b", "8", "-e", "8", "--iters", "7"}, 7},
		{[]string{"bench", "ar", "-n", "2", "-b", "8", "-e", "8", "--protocol", "eager,rendezvous"}, 0},
		{[]string{"bench", "p2p", "-n", "2", "-b", "64", "-e", "64", "--verbs", "write"}, 0},
		{[]string{"bench", "p2p", "-n", "2", "-b", "64", "-e", "64", "--verbs", "write", "--iters", "7"}, 7},
		{[]string{"local", "-n", "2", "-c", "ar --size 8"}, 0},
		{[]string{"local", "-n", "2", "-c", "ar --size 8 --iters 20"}, 20},
	} {
		row := run(c.args...)[0]
		n := row["iters"].(float64)
		// On a machine so slow that few iterations last long, few are enough.
		lasted := n * row["time_us"].(map[string]any)["p50"].(float64)
		if c.iters == 0 && n <= 20 && lasted < 5000 || c.iters > 0 && n != c.iters {
			t.Errorf("%q: %v iterations in some %v us", c.args, n, lasted)
		}
		if spread := row["spread_pct"]; row["op"] != "WRITE" && (spread != nil) != (c.iters == 0) {
			t.Errorf("%q: the spread is %v", c.args, spread)
		}
		if checked := row["wrong"] != nil; strings.Contains(c.args[0], "bench") && checked == strings.Contains(strings.Join(c.args, " "), "-c 0") {
			t.Errorf("%q: wrong is %v", c.args, row["wrong"])
		}
	}
}

// atCPUs is where the ranks of a table ran, which differs by machine.
var atCPUs = regexp.MustCompile(` at CPUs [\d,-]+`)

// Each table says where and how often; the habits of nccl-tests get a hint.
func TestTablesNameTheirRing(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args []string
		want []string
	}{
		{[]string{"bench", "ar", "-n", "2", "-b", "8", "-e", "64", "-f", "8", "--iters", "3"}, []string{
			"# all-reduce of float32 sum on 2 ranks of soft:lo\n# a row: 3 iterations; time in us, bandwidths in GB/s (1e9)\n",
			"\n    size    count   time   ±% algbw busbw wrong   time   ±% algbw busbw wrong\n       8        2",
			"\n# auto: inbox/eager is taken at every size\n",
		}},
		{[]string{"bench", "ag", "-n", "2", "-b", "8", "-e", "8", "--iters", "3", "--algorithm", "ring", "--protocol", "eager"}, []string{"# all-gather of float32 on 2 ranks of soft:lo by ring/eager\n"}},
		{[]string{"local", "-n", "3", "-c", "ar --size 8 --iters 3; ar --size 16 --iters 3; ping; ar --size 16 --iters 4"}, []string{
			"# 3 ranks of soft:lo; a row: 3 iterations\noperation      algo/protocol         bytes  iters p50 us p99 us  busbw of% wrong\nall-reduce",
			"# 3 ranks of soft:lo; a row: 4 iterations\noperation",
		}},
	} {
		code, stdout, stderr := finish(t, c.args...)
		stdout = atCPUs.ReplaceAllString(stdout, "")
		for _, want := range c.want {
			if code != exit.OK || strings.Count(stdout, want) != 1 {
				t.Errorf("%q: exit code %d, expected once\n%s\nin\n%s%s", c.args, code, want, stdout, stderr)
			}
		}
	}
}

// Tables and JSON say where the ranks of a host poll; --cpus says where.
func TestResultsNameTheCPUs(t *testing.T) {
	t.Parallel()
	cpus, err := cpu.Allowed()
	if err != nil {
		t.Fatal(err)
	}
	one := strconv.Itoa(cpus[0])
	for _, c := range []struct {
		cpus, output string
		code         int
		want         string
	}{
		{one, "table", exit.OK, "# all-reduce of float32 sum on 2 ranks of soft:lo at CPUs " + one + "," + one + "\n"},
		{one, "json", exit.OK, `,"cpus":[` + one + "," + one + "]"},
		{"none", "table", exit.OK, "# all-reduce of float32 sum on 2 ranks of soft:lo\n"},
		{one + ",8191", "table", exit.Usage, `cpus is "` + one + `,8191": this process may not run on CPU 8191, expected some of ` + cpu.FormatList(cpus) + ", auto or none"},
	} {
		code, stdout, stderr := finish(t, "bench", "ar", "-n", "2", "-b", "8", "-e", "8", "--iters", "2", "--cpus", c.cpus, "--output", c.output)
		if code != c.code || !strings.Contains(stdout+stderr, c.want) {
			t.Errorf("--cpus %s: exit code %d, expected %d and\n%s\nin\n%s%s", c.cpus, code, c.code, c.want, stdout, stderr)
		}
	}
}

// Where no device is named local checks itself over packets and over shared memory, says
// which is which, and sums up in its last line.
func TestLocalChecksBothWays(t *testing.T) {
	verbstest.Long(t)
	t.Parallel()
	run := func(args ...string) (code int, stdout string) {
		t.Helper()
		p := program(t, append([]string{"local", "-n", "2"}, args...)...)
		p.Env = slices.DeleteFunc(p.Env, func(v string) bool { return strings.HasPrefix(v, "RINGCLI_DEVICE=") })
		if err := p.Start(); err != nil {
			t.Fatal(err)
		}
		return p.end(t, hung), p.stdout.String()
	}
	code, stdout := run()
	at := 0
	for _, want := range []string{
		`^# self-check on 2 ranks of soft:lo: RoCEv2 packets over UDP, made in user space\n# a row: 5 iterations, and one of each type of which every element is verified\nping`,
		`(?m)^all-reduce +rendezvous-read +1048576 +5 .* 0$`,
		`(?m)^# eager: [1-9]\d* WRITE_WITH_IMM into slots\n# rendezvous: [1-9]\d* RTS, [1-9]\d* CTS, [1-9]\d* WRITE_WITH_IMM, [1-9]\d* READ, [1-9]\d* FIN\n# OK: 2 ranks of soft:lo, \d+ checks, 0 wrong elements \(float32, int32\), [\d.]+ s\n`,
		`^# self-check on 2 ranks of shm:0: memory that ranks of one host share\n`,
		`(?m)^all-reduce +inbox/direct +1048576 +5 .* 0$`,
		`(?m)^# OK: 2 ranks of shm:0, \d+ checks, .*\n# OK: 2 ranks of soft:lo and shm:0, \d+ checks, 0 wrong elements \(float32, int32\), [\d.]+ s\n$`,
	} {
		found := regexp.MustCompile(want).FindStringIndex(stdout[at:])
		if code != exit.OK || found == nil {
			t.Fatalf("exit code %d, expected %s in\n%s", code, want, stdout[at:])
		}
		at += found[1]
	}
	if !verbstest.Full() { // it takes as long again
		return
	}
	code, stdout = run("--output", "json")
	last := ofCommand(t, stdout, "self-check", "over")
	if over := last["over"].([]any); code != exit.OK || len(over) != 2 || last["ok"] != true || last["sent"].(map[string]any)["cts"].(float64) < 1 {
		t.Errorf("exit code %d, %v", code, last)
	}
}
