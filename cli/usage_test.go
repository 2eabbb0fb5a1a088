package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"ringcli/cli/exit"
)

// Each mistake is one line that says what was given and what was expected, with
// exit code 3, before anything is started.
func TestBadInput(t *testing.T) {
	file := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(file, []byte("mtuu: 1024\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	one := func(commands string) []string { return []string{"local", "-n", "2", "-c", commands} }
	for _, c := range []struct {
		name string
		args []string
		want []string // parts of the message
	}{
		{"index outside the list", words("connect --index 9 --list 127.9.9.1,127.9.9.2"), []string{"index 9", "0 to 1"}},
		{"negative index", words("connect --index -3 --list 127.9.9.1,127.9.9.2"), []string{"-3", "from -1"}},
		{"index is no number", words("connect --index x --list 127.9.9.1"), []string{`"x"`, "--index", "whole number"}},
		{"no index", words("connect --list 127.9.9.1"), []string{"--index"}},
		{"no list", words("connect --index 0"), []string{"--list"}},
		{"no list, and a rank that is not the first", words("connect --index 1"), []string{"--list"}},
		{"ranks of which nothing says where they are", words("connect --world-size 4"), []string{"4 ranks", "flag --world-size", "--list", "MASTER_ADDR"}},
		{"a rank of too few", words("connect --index 4 --world-size 4 --master-addr 127.9.9.1 --master-port 7"), []string{"rank 4 of 4", "0 to 3"}},
		{"a master without a port", words("connect --launcher master --master-addr 127.9.9.1"), []string{"master-port is 0", "expected both"}},
		{"a master without a number", words("connect --master-port x"), []string{"--master-port", `"x"`}},
		{"another launcher", words("connect --launcher pbs"), []string{`"pbs"`, "auto, master, pmix, pmi, slurm or hostfile"}},
		{"a launcher that is not there", words("connect --launcher pmi"), []string{"PMI_FD", "as the launcher sets it"}},
		{"a list backwards", words("connect --index 0 --list n[3-1]"), []string{`"3-1" in "n[3-1]"`, "node[0-3,7]"}},
		{"doubled host:port", words("connect --index 0 --list a:5000,b,a:5000"), []string{"a:5000", "entry 0", "entry 2"}},
		{"a variable that is not set", words("connect --index 0 --list ,127.9.9.1"), []string{`server list ",127.9.9.1": entry 0 is empty`, "is a variable not set?"}},
		{"a bracket that is not closed", words("connect --index 0 --list [::1"), []string{`"[::1"`, "[v6]:port"}},
		{"doctor with an index outside the list", words("doctor --index 2 --list a,b"), []string{"index 2", "0 to 1"}},
		{"doctor with an index and no list", words("doctor --index 2"), []string{"--index 2 without --list"}},
		{"doctor of a bad list", words("doctor --list a,,b"), []string{"entry 1 is empty"}},
		{"doctor of a thing", words("doctor disk"), []string{`unexpected argument "disk"`}},
		{"doctor of ranks", words("doctor --ranks -1"), []string{"--ranks", "how many ranks"}},
		{"path of many ports", []string{"local", "-n", "2", "-c", "path --source-ports 65"}, []string{"how many source ports", "1 to 64"}},
		{"path by no port", []string{"local", "-n", "2", "-c", "path --first-source-port 80"}, []string{"--first-source-port", "1024"}},
		{"path of a thing", []string{"local", "-n", "2", "-c", "path node1"}, []string{`unexpected argument "node1"`}},
		{"a report of a file that is not there", words("report no-such.json"), []string{"no-such.json", "expected a file to pack"}},
		{"a report of a folder", words("report /"), []string{"report: / is d", "expected a regular file"}},
		{"a report of a recording that is none", words("report --record /proc/self/status"), []string{"--record /proc/self/status"}},
		{"a report to nowhere", []string{"report", "--out", ""}, []string{`--out ""`, "is a variable not set?"}},
		{"a report in place of what is no file", words("report --out /dev/null"), []string{"/dev/null", "no regular file"}},
		{"a report of a ring to standard output", one("report --out -"), []string{"--out -", "expected a file"}},
		{"a report with an index and no list", words("report --index 2"), []string{"--index 2 without --list"}},
		{"bad port", words("connect --index 0 --list a:99999"), []string{"a:99999", "65535"}},
		{"missing list file", words("connect --index 0 --list @/no/such/file"), []string{"/no/such/file"}},
		{"count is no number", one("all-reduce --count many"), []string{`"many"`, "--count", "whole number"}},
		{"negative count", one("all-reduce --count -1"), []string{`"-1"`, "--count"}},
		{"size is no size", one("all-reduce --size 1X"), []string{`"1X"`, "--size", "64K"}},
		{"both sizes", one("all-reduce --count 1 --size 1K"), []string{"--size 1K", "--count 1"}},
		{"size beyond memory", one("all-reduce --size 4000G"), []string{"size 4000G", "2 ranks", "available"}},
		{"size beyond addresses", one("all-reduce --size 17179869183G"), []string{"elements", "address space"}},
		{"bench beyond memory", words("bench all-gather -n 2 -b 4000G -e 4000G"), []string{"size 4000G", "available"}},
		{"unknown type", one("ar --type decimal"), []string{`"decimal"`, "float32"}},
		{"unknown op", one("ar --op xor"), []string{`"xor"`, "sum"}},
		{"a root beyond the ring", one("broadcast --root 2"), []string{"broadcast: root 2: expected 0 to 1"}},
		{"a root before it", one("bcast --root -1"), []string{`"-1"`, "--root", "rank of the root"}},
		{"a root of what has none", one("ar --root 1"), []string{"--root"}},
		{"a bench of it", words("bench ar -n 2 --root 1"), []string{"bench all-reduce: --root 1 means nothing here", "broadcast"}},
		{"a barrier of a type", one("barrier --type float32"), []string{"unknown flag: --type", "help barrier"}},
		{"a barrier with a root", one("barrier --root 1"), []string{"unknown flag: --root"}},
		{"a barrier of elements", one("barrier --count 8"), []string{"unknown flag: --count"}},
		{"a barrier by rendezvous", one("barrier --protocol rendezvous"), []string{"there are no data to be put into place", "expected eager, auto"}},
		{"a bench of a barrier of sizes", words("bench barrier -n 2 -b 8"), []string{"bench barrier: --begin 8 means nothing here", "all-reduce"}},
		{"a bench of a barrier with an op", words("bench bar -n 2 --op max"), []string{"bench barrier: --op max means nothing here"}},
		{"a bench of a barrier that is checked", words("bench barrier -n 2 --check"), []string{"bench barrier: --check true means nothing here"}},
		{"unknown protocol", one("ar --protocol pigeon"), []string{`"pigeon"`, "rendezvous-read"}},
		{"unknown algorithm", one("ar --algorithm star"), []string{`"star"`, "recursive-doubling"}},
		{"a tree by rendezvous", one("ar --algorithm tree --protocol rendezvous-read"), []string{"all-reduce: tree by rendezvous-read", "expected eager"}},
		{"a bench of a tree by rendezvous", words("bench rs -n 2 --algorithm tree --protocol rendezvous"), []string{"bench reduce-scatter: tree by rendezvous-write", "expected eager"}},
		{"receiver-initiated without a phase before", one("rs --protocol receiver-initiated"), []string{"reduce-scatter: receiver-initiated: the first phase of all-reduce brings the address", "expected all-reduce, or eager or auto"}},
		{"a bench of it", words("bench ag -n 2 --protocol recv-init"), []string{"bench all-gather: receiver-initiated: the first phase of all-reduce", "expected all-reduce, or eager or auto"}},
		{"receiver-initiated through a tree", one("ar --algorithm tree --protocol receiver-initiated"), []string{"all-reduce: tree by receiver-initiated: rendezvous is for the ring", "expected eager"}},
		{"unknown algorithm of connect", words("local -n 2 --algorithm star"), []string{`"star"`, "inbox"}},
		{"unknown algorithm of a bench", words("bench ar -n 2 --algorithm ring,star"), []string{`"star"`, "recursive-doubling (rd, doubling)"}},
		{"tune in no time", words("tune -n 2 --budget 1ms"), []string{"--budget 1ms", "1s or more"}},
		{"tune of whom", words("tune"), []string{"-n", "--list"}},
		{"tune into a folder", words("tune -n 2 --save /"), []string{"--save /", "no regular file"}},
		{"a table that is not there", words("local -n 2 --table /no/such/table"), []string{"/no/such/table", "ringcli tune"}},
		{"a table that is none", words("local -n 2 --table " + file), []string{file, "line 1", "expected JSON"}},
		{"unknown protocol of connect", words("local -n 2 --protocol pigeon"), []string{`"pigeon"`, "eager"}},
		{"unknown output", words("config --output xml"), []string{`"xml"`, "json"}},
		{"unknown command", words("all-reduze"), []string{`"all-reduze"`, "connect"}},
		{"mistyped command", words("benhc"), []string{`"benhc"`, "did you mean bench?"}},
		{"unknown command in -c", one("ping; pong"), []string{`"pong"`, "did you mean ping?"}},
		{"unknown flag", words("local --ranks 2 --colour"), []string{"--colour"}},
		{"unknown flag in -c", one("ping --size 3"), []string{"--size"}},
		{"negative duration", one("ar --duration -3s"), []string{`"-3s"`, "zero or more"}},
		{"duration without unit", one("ar --duration 3"), []string{`"3"`, "unit"}},
		{"negative timeout", words("local -n 2 --timeout -3s"), []string{"-3s", "above zero"}},
		{"timeout without unit", words("local -n 2 --timeout 3"), []string{`"3"`, "unit"}},
		{"floor is no number", one("ar --floor fast"), []string{`"fast"`, "GB/s"}},
		{"a share of packets without its sign", one("ar --max-resent 0.1"), []string{`"0.1"`, "such as 0.1%"}},
		{"a share of packets for a barrier", one("bench barrier --max-resent 1%"), []string{"--max-resent 1%", "means nothing here"}},
		{"a share of packets for protocols by turns", one("bench ar --protocol eager,rendezvous --max-resent 1%"), []string{"--max-resent", "2 algorithms or protocols"}},
		{"depth beyond the limit", one("ar --depth 17"), []string{"17", "16"}},
		{"iterations", one("ar --iters 0"), []string{`"0"`, "iterations"}},
		{"no ranks", words("local -n 0"), []string{`"0"`, "1 to 5000"}},
		{"too many ranks", words("local -n 5001"), []string{`"5001"`, "1 to 5000"}},
		{"MTU", words("local -n 2 --mtu 1500"), []string{"1500", "1024"}},
		{"argument", words("local 4"), []string{`"4"`}},
		{"no command in -c", one(" ; "), []string{"has no command"}},
		{"quote", one("ping 'x"), []string{"closing '"}},
		{"missing script", words("local -n 2 -f /no/such/script"), []string{"/no/such/script"}},
		{"two scripts", words("local -n 2 -c ping --check"), []string{"-c, -f and --check"}},
		{"empty configuration", words("config --config="), []string{`--config ""`, "is a variable not set?"}},
		{"empty device", words("local -n 2 --device="), []string{`device is ""`, "not empty", "flag --device"}},
		{"missing configuration", words("config --config /no/such/file"), []string{"/no/such/file"}},
		{"unknown key", words("config --config " + file), []string{"mtuu", `"mtu"`}},
		{"trace level", words("config --trace loud"), []string{`"loud"`, "debug"}},
		{"bench without operation", words("bench -n 2"), []string{"expected one of all-reduce"}},
		{"bench of what", words("bench all-to-all -n 2"), []string{`"all-to-all"`, "p2p"}},
		{"bench of whom", words("bench all-reduce"), []string{"-n", "--list"}},
		{"bench downwards", words("bench ar -n 2 -b 1M -e 1K"), []string{"-b 1M", "-e 1K"}},
		{"bench by one", words("bench ar -n 2 -f 1"), []string{"-f 1", "2 or more"}},
		{"bench by nothing", words("bench ar -n 2 -f 0"), []string{`"0"`, "-f, --factor", "from 1 to"}},
		{"bench of nothing", words("bench ar -n 2 -b 0"), []string{"bench: -b 0 measures nothing: expected a size above 0"}},
		{"bench up to nothing", words("bench p2p -n 2 -e 0"), []string{"bench: -e 0 measures nothing: expected a size above 0"}},
		{"completion", words("completion tcsh"), []string{`"tcsh"`, "bash"}},
		{"parent", words("connect --index 0 --list a --parent-fd 0"), []string{"--parent-fd"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			begun := time.Now()
			code, stdout, stderr := here(t, c.args...)
			if code != exit.Usage || stdout != "" {
				t.Errorf("exit code %d, stdout %q", code, stdout)
			}
			if !strings.HasPrefix(stderr, "ringcli: ") || strings.Count(stderr, "\n") != 1 || !strings.HasSuffix(stderr, "\n") {
				t.Errorf("not one line: %q", stderr)
			}
			for _, part := range c.want {
				if !strings.Contains(stderr, part) {
					t.Errorf("no %q in %q", part, stderr)
				}
			}
			if took := time.Since(begun); took > 10*time.Second {
				t.Errorf("it took %s", took)
			}
		})
	}
}

// A broken file that was only found breaks only what reads it.
func TestABrokenFileThatWasFound(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.WriteFile("ringcli.yaml", []byte("mtuu: 1024\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	const why = "ringcli: configuration: file ringcli.yaml: unknown key \"mtuu\", the nearest known is \"mtu\""
	for line, want := range map[string]string{
		"config":          why + "\n",
		"local -n 2":      why + "\n",
		"config --sample": why + "; config does without the file\n",
		"version":         why + "; version does without the file\n",
		"help concepts":   "",
		"--help":          "",
	} {
		wantCode := exit.OK
		if want == why+"\n" {
			wantCode = exit.Usage
		}
		code, stdout, stderr := here(t, words(line)...)
		if code != wantCode || stderr != want || (stdout == "") != (code == exit.Usage) {
			t.Errorf("%s: exit code %d, stdout %q, stderr %q", line, code, stdout, stderr)
		}
	}
}

func words(line string) []string { return strings.Fields(line) }

func TestErrorsAreJSONToo(t *testing.T) {
	for _, args := range []string{
		"config --mtu 7 --output json", "--output=json no-such-command", "local -n x --output json", "local -n 2 -c pong --output json",
	} {
		code, stdout, stderr := here(t, words(args)...)
		all := objects(t, stdout)
		if code != exit.Usage || stderr != "" || len(all) != 1 {
			t.Fatalf("%s: exit code %d, stdout %q, stderr %q", args, code, stdout, stderr)
		}
		if o := all[0]; o["ok"] != false || o["exit_code"] != 3.0 || o["error"] == "" || o["command"] == "" {
			t.Errorf("%s: %v", args, o)
		}
	}
}

// misused runs a line that is wrong, which ends with one line that has all parts of want.
func misused(t *testing.T, line string, want []string) {
	t.Helper()
	code, stdout, stderr := here(t, words(line)...)
	if code != exit.Usage || strings.Count(stderr, "\n") != 1 {
		t.Errorf("%s: exit code %d: %q, %q", line, code, stderr, stdout)
	}
	for _, part := range want {
		if !strings.Contains(stderr, part) {
			t.Errorf("%s: no %q in %q", line, part, stderr)
		}
	}
}
