package cli

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"ringcli/cli/exit"
)

// What a newcomer types first is answered where it was typed.
func TestFirstWords(t *testing.T) {
	for _, c := range []struct {
		args []string
		code int
		says string // on either stream, from its beginning
	}{
		{words("--version"), exit.OK, "ringcli version "},
		{words("-v"), exit.OK, "ringcli version "},
		{words("help concepts"), exit.OK, "The objects, from the hardware up:"},
		{words("help @look"), exit.OK, "Look:\n  qp "},
		{words("help lost"), exit.OK, "lost: a rank's process is dead (exit code 2)\n\nNamed: the rank, "},
		{[]string{"shell", "-c", "help retry-exceeded"}, exit.OK, "retry-exceeded: transport retry counter exceeded (12) (exit code 2)\n\nNamed: "},
		{words("help failures"), exit.OK, "A command that fails says in one line "},
		{words("help perished"), exit.Usage, "ringcli: unknown command \"perished\": "},
		{words("help @nothing"), exit.Usage, "ringcli: help @nothing: there is no such group: expected one of @ring, "},
		{words("help local"), exit.OK, "Starts -n processes on this machine"},
		{words("help all-reduce"), exit.OK, "all-reduce is given to the ranks of a ring: ringcli local -n 2 -c all-reduce, or\n  ringcli connect --index I --list A,B -c all-reduce\n\nReduces the vectors"},
		{words("help alias"), exit.OK, "alias is for the shell: ringcli local -n 2 --shell\n\nMake a name"},
		{[]string{"shell", "-c", "help local"}, exit.OK, "local is a command of its own: ringcli local\n\nStarts"},
		{words("help pings"), exit.Usage, "ringcli: unknown command \"pings\": did you mean ping? it is given to the ranks of a ring: "},
		{words("ping"), exit.Usage, "ringcli: ping is given to the ranks of a ring: ringcli local -n 2 -c ping, or ringcli connect --index I --list A,B -c ping\n"},
		{words("ar --size 1M"), exit.Usage, "ringcli: ar is given to the ranks of a ring: ringcli local -n 2 -c all-reduce, or "},
		{words("lab b -d lo -i 1 -p 18999 -m 1024 -l 0 -g 0 -s 0"), exit.Usage, "ringcli: lab b --size 0: expected 1 to 2G\n"},
		{words("history"), exit.Usage, "ringcli: history is for the shell: ringcli local -n 2 --shell\n"},
		{words("statsu"), exit.Usage, "ringcli: unknown command \"statsu\": did you mean status? it is given to the ranks of a ring: ringcli local "},
		{words("hlep"), exit.Usage, "ringcli: unknown command \"hlep\": did you mean help? `ringcli help` lists the commands\n"},
		{words("conect --index 0"), exit.Usage, "ringcli: unknown command \"conect\": did you mean connect? `ringcli help` lists the commands\n"},
		{words("xyzzy"), exit.Usage, "ringcli: unknown command \"xyzzy\": `ringcli help` lists the commands\n"},
		{words("copy file host:file"), exit.Usage, "ringcli: unknown command \"copy\": `ringcli help` lists the commands\n"},
		{words("--xyzzy"), exit.Usage, "ringcli: unknown flag: --xyzzy; `ringcli --help` lists the flags\n"},
		{[]string{"local", "-c", "counter"}, exit.Usage, "ringcli: unknown command \"counter\": did you mean counters? `help` lists the commands\n"},
		{[]string{"local", "-c", "pong --x"}, exit.Usage, "ringcli: unknown command \"pong\": did you mean ping? `help` lists the commands\n"},
		{[]string{"local", "-c", "lab a"}, exit.Usage, "ringcli: lab is a command of its own: ringcli lab\n"},
		{[]string{"local", "-c", "ping; watch 1s"}, exit.Usage, "ringcli: watch 1s: expected a command, too, such as: watch 1s counters\n"},
		{[]string{"local", "-c", "ping; watch 1s ping"}, exit.Usage, "ringcli: watch is for the shell: expected none in -c and -f\n"},
		{[]string{"local", "-c", "ping; history"}, exit.Usage, "ringcli: history is for the shell: expected none in -c and -f\n"},
		{[]string{"local", "-c", "ping; close &; wait"}, exit.Usage, "ringcli: close cannot run in the background: it changes the ring, which the commands after it need: expected it without &\n"},
		{[]string{"local", "-c", "status &"}, exit.Usage, "ringcli: status cannot run in the background: expected it without &, or an operation, a measurement, sleep, source or watch\n"},
		{[]string{"local", "-c", "source ring.sh &"}, exit.Usage, "ringcli: source cannot run in the background in -c and -f: "},
		{[]string{"local", "-c", "ping; & wait"}, exit.Usage, "ringcli: there is nothing to run in the background: expected a command before &\n"},
		{[]string{"local", "-c", "all-reduce & wait one"}, exit.Usage, "ringcli: wait one: expected the number of a job, such as 1: `jobs` lists them\n"},
		{[]string{"local", "-c", "cancel 1 2"}, exit.Usage, "ringcli: cancel: 2 arguments given: expected at most a job's number\n"},
		{[]string{"local", "-c", "ping; set depth 99"}, exit.Usage, "ringcli: configuration: depth is \"99\", expected a whole number from 1 to 16\n"},
	} {
		code, stdout, stderr := here(t, c.args...)
		if text := stdout + stderr; code != c.code || !strings.HasPrefix(text, c.says) || (code == exit.OK) != (stderr == "") {
			t.Errorf("%q: exit code %d\n%.300s\nwant %d\n%s", c.args, code, text, c.code, c.says)
		}
	}
}

func TestByteOrderMark(t *testing.T) {
	file := filepath.Join(t.TempDir(), "script")
	if err := os.WriteFile(file, []byte("\ufeffversion\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, stdout, stderr := here(t, "shell", "-f", file); code != exit.OK || !strings.HasPrefix(stdout, "version ") {
		t.Errorf("exit code %d\n%s%s", code, stdout, stderr)
	}
}

// The switch at compile time that README speaks of is what make does.
func TestBuildWithoutPrints(t *testing.T) {
	for target, tags := range map[string]string{"build": "notrace", "static": "nodl,notrace"} {
		make := exec.Command("make", "-n", "TAGS=notrace", target)
		make.Dir = ".."
		if out, err := make.CombinedOutput(); err != nil || !strings.Contains(string(out), " -tags '"+tags+"' ") {
			t.Errorf("%s: %v\n%s", target, err, out)
		}
	}
	if readme, err := os.ReadFile("../README.md"); err != nil || !strings.Contains(string(readme), "`make TAGS=notrace`") {
		t.Errorf("README does not speak of it: %v", err)
	}
}

// What help says of algorithms and of defaults is what there is.
func TestHelpSaysWhatThereIs(t *testing.T) {
	for _, c := range []struct{ topic, says string }{
		{"algorithms", "log n exchanges with ranks at distance p/2 ... 2, 1\n"},
		{"concepts", "log n exchanges with ranks at distance p/2 ... 2, 1\n"},
		{"benchmarks", " --segment 0 --depth 4 "},
		{"config", "format of results: table, json, csv or\n"},
		{"connect", "hierarchical (auto: by size and by\n"},
		{"connect", "protocol of collectives: auto, eager,"},
		{"all-reduce", "element type: int8, uint8,"},
		{"ping", "last step of ranks that connect, which"},
	} {
		if _, stdout, _ := here(t, "help", c.topic); !strings.Contains(stdout, c.says) {
			t.Errorf("help %s does not say %q", c.topic, c.says)
		}
	}
}
