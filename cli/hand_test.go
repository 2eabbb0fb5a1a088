package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/failure"
	"ringcli/cli/hand"
	"ringcli/cli/lines"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/shell"
	"ringcli/configs"
	"ringcli/configs/codes"
	"ringcli/ring"
	"ringcli/verbs"
	"ringcli/verbs/memory"
	"ringcli/verbs/verbstest"
)

// hands is a shell of its own on a rank, without a terminal: what it prints and
// reports can be read, and its ring looked at.
type hands struct {
	*invocation
	t        *testing.T
	out, log bytes.Buffer
}

// handShells returns n shells whose rings are not open yet; they are left at the
// end.
func handShells(t *testing.T, n int) []*hands {
	t.Helper()
	list := strings.Join(freshList(t, n), ",")
	all := make([]*hands, n)
	for i := range all {
		cfg, err := configs.Load(nil, "")
		for name, text := range map[string]string{
			"list": list, "index": fmt.Sprint(i), "device": "soft:lo", "timeout": "10s", "slots": "4", "slot-size": "4096",
		} {
			if err == nil {
				cfg, err = cfg.With(name, text)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
		h := &hands{t: t}
		h.invocation = newInvocation(strings.NewReader(""), &h.out, &h.log, nil, nil)
		h.Options = testOptions()
		h.Config, h.Out, h.Interactive = cfg, render.New(&h.out, render.Table), true
		all[i] = h
	}
	t.Cleanup(func() {
		for _, h := range all {
			if err := h.Leave(context.Background(), hand.Leaving(h.Session), session.Order{Do: session.OrderAgain}); err != nil && !h.wasFailed(err) {
				t.Error(err)
			}
		}
	})
	return all
}

func (h *hands) wasFailed(err error) bool {
	var v *ring.Verdict
	return errors.As(err, &v)
}

// do runs a line and returns what it printed, with the report of its error.
func (h *hands) do(line string) (string, error) {
	h.out.Reset()
	h.log.Reset()
	ctx, cancel := context.WithTimeout(h.t.Context(), 30*time.Second)
	defer cancel()
	err := lines.Run(ctx, h.Session, h.table, line)
	if err != nil {
		failure.Report(h.Session, "test", err, exit.Code(err))
	}
	return h.out.String() + h.log.String(), err
}

// must runs a line that works.
func (h *hands) must(line string) string {
	h.t.Helper()
	text, err := h.do(line)
	if err != nil {
		h.t.Fatalf("%s: %v\n%s", line, err, text)
	}
	return text
}

// fails runs a line that ends with an exit code, and returns all that was said.
func (h *hands) fails(line string, code int) string {
	h.t.Helper()
	text, err := h.do(line)
	if exit.Code(err) != code {
		h.t.Fatalf("%s: exit code %d, %v: expected exit code %d\n%s", line, exit.Code(err), err, code, text)
	}
	return text
}

// failsFor is fails, with the failure's code.
func (h *hands) failsFor(line string, code int, why codes.Code) string {
	h.t.Helper()
	text, err := h.do(line)
	if exit.Code(err) != code || err != nil && failure.Code(err) != why {
		h.t.Fatalf("%s: exit code %d, %s: %v: expected exit code %d, %s\n%s", line, exit.Code(err), failure.Code(err), err, code, why, text)
	}
	return text
}

// all runs a line on every rank at once.
func allDo(t *testing.T, all []*hands, line string) {
	t.Helper()
	errs := make([]error, len(all))
	texts := make([]string, len(all))
	var wg sync.WaitGroup
	for i, h := range all {
		wg.Go(func() { texts[i], errs[i] = h.do(line) })
	}
	wg.Wait()
	for i, err := range errs {
		if err != nil {
			t.Fatalf("rank %d: %s: %v\n%s", i, line, err, texts[i])
		}
	}
}

// says fails unless a text contains all the words.
func says(t *testing.T, text string, words ...string) {
	t.Helper()
	flat := strings.Join(strings.Fields(text), " ")
	for _, w := range words {
		if !strings.Contains(flat, w) {
			t.Errorf("%q is not said in\n%s", w, text)
		}
	}
}

// upByHand walks two ranks to RTS, with flags of single steps for rank 0 and for
// rank 1.
func upByHand(t *testing.T, flags ...map[string]string) (a, b *hands) {
	t.Helper()
	all := handShells(t, 2)
	for _, step := range []string{"open", "init", "exchange", "rtr", "rts"} {
		var wg sync.WaitGroup
		errs, texts := make([]error, 2), make([]string, 2)
		for i, h := range all {
			line := step
			if i < len(flags) {
				line += " " + flags[i][step]
			}
			wg.Go(func() { texts[i], errs[i] = h.do(line) })
		}
		wg.Wait()
		for i, err := range errs {
			if err != nil {
				t.Fatalf("rank %d: %s: %v\n%s", i, step, err, texts[i])
			}
		}
	}
	return all[0], all[1]
}

// noReceives leaves the receive queues to the user, who posts the receives.
var noReceives = map[string]string{"init": "--receives 0"}

func TestEachKindByHand(t *testing.T) {
	live := memory.Live.Load()
	t.Cleanup(func() {
		if now := memory.Live.Load(); now != live {
			t.Errorf("%d bytes of memory were left behind", now-live)
		}
	})
	a, b := upByHand(t, noReceives, noReceives)
	for i, h := range []*hands{a, b} {
		says(t, h.must(fmt.Sprintf("mr reg r --size 4K --fill rank%d", i)), "read,atomic")
	}
	says(t, a.must("mr list"), "own 0 r", "left 1 r", "right 1 r", "right 1 slots")
	// SEND into a region, with immediate data.
	says(t, b.must("post recv left --mr r --offset 64 --length 32"), "receive into r+64, 32 bytes, from rank 0")
	says(t, a.must("post send right --text hello --imm 7"), "SEND_WITH_IMM of a text, 5 bytes, to rank 1")
	says(t, a.must("poll --count 1"), "success (0)", "SEND_WITH_IMM of a text")
	says(t, b.must("poll --count 1"), "success (0)", "RECV, receive into r+64", `imm 0x7: "hello"`)
	says(t, b.must("mr show r --offset 64 --length 16"), "68 65 6c 6c 6f")
	// WRITE, and with immediate data, which takes a receive without memory.
	says(t, a.must("post write right --mr r --length 8 --remote-offset 128"), "to rank 1's r")
	a.must("poll --count 1")
	says(t, b.must("mr show r --offset 128 --length 8"), "rank0ran")
	b.must("post recv left")
	a.must("post write right --text bye --remote r --imm 0xabc")
	says(t, b.must("poll --count 1"), "RECV_RDMA_WITH_IMM", "imm 0xabc")
	a.must("poll --count 1")
	says(t, b.must("mr show r --length 8"), "byek1ran")
	// READ back.
	says(t, a.must("post read right --mr r --offset 256 --length 8"), "RDMA_READ of rank 1's r, 8 bytes, into r+256")
	says(t, a.must("poll --count 1"), `"byek1ran"`)
	// Atomics.
	b.must("mr reg n --size 8")
	a.must("mr reg n --size 8")
	a.must("post fetch-add right --mr n --add 5; poll --count 1; post comp-swap right --mr n --compare 5 --swap 9; poll --count 1")
	says(t, b.must("mr show n"), "09 00 00 00 00 00 00 00")
	says(t, a.must("mr show n"), "05 00 00 00 00 00 00 00")
	// Without anything posted.
	says(t, a.must("poll --timeout 1ms"), "0 completions", "nothing by hand is posted")
	says(t, a.fails("poll --timeout 1ms --count 1", exit.Critical), "0 of 1 completions")
	a.must("mr dereg n")
	says(t, a.fails("mr show n", exit.Usage), "no region \"n\" here")
}

// A message by hand comes into a buffer of init where no receive was posted by
// hand; ring and collectives work before and after.
func TestByHandBetweenOperations(t *testing.T) {
	a, b := upByHand(t)
	both := []*hands{a, b}
	allDo(t, both, "all-reduce --size 64K --check --iters 2; expect wrong == 0")
	says(t, a.must("ping"), "0 -> 1 left", "0 -> 1 right")
	a.must("post send right --text hello")
	says(t, a.fails("all-reduce --size 4K", exit.Usage), "SEND of a text", "`poll` first")
	a.must("poll --count 1") // it was acknowledged: it has arrived
	says(t, b.fails("all-reduce --size 4K", exit.Usage), "has arrived and is not polled: `poll` first")
	says(t, b.must("poll --count 1"), `"hello"`, "message buffer")
	b.must("mr reg r --size 64")
	a.must("mr reg r --size 64 --fill 0xdeadbeef")
	a.must("post write right --mr r --imm 3; poll --count 1")
	says(t, b.must("poll --count 1"), "RECV_RDMA_WITH_IMM", "imm 0x3")
	allDo(t, both, "all-reduce --size 64K --check --iters 2 --protocol eager; expect wrong == 0")
	says(t, b.must("ping right --iters 5"), "1 -> 0 right")
	// Reset drops what is posted.
	says(t, b.fails("post recv left --mr r", exit.Usage), "the receive queue is full", "init --receives 0")
	for _, line := range []string{"reset", "init --receives 8", "exchange", "rtr", "rts"} {
		allDo(t, both, line)
	}
	b.must("post recv left --mr r")
	says(t, b.fails("mr dereg r", exit.Usage), "posted and not polled")
	says(t, b.must("poll --timeout 1ms"), "left: receive into r+0, 64 bytes", "rank 0's is RTS and has 0 sends and 8 receives posted: nothing is under way")
	says(t, b.fails("ping left", exit.Usage), "a receive posted by hand")
	for _, line := range []string{"reset", "init", "exchange", "rtr", "rts", "all-gather --size 4K --check; expect wrong == 0"} {
		allDo(t, both, line)
	}
	b.must("mr dereg r")
}

// What is done to a queue pair behind the shell's back is seen by all that look.
func TestTheTruthIsShown(t *testing.T) {
	a, b := upByHand(t)
	says(t, a.must("status"), "ring is RTS", "rts done done", "left own 0 RTS", "right peer 1 RTS")
	if err := b.Ring.Edge(ring.Left.Edge()).QP.Modify(verbs.QPAttr{State: verbs.StateErr}, verbs.AttrState); err != nil {
		t.Fatal(err)
	}
	says(t, b.must("status"), "the ring is error", "rts ERR done", "reset - - <- next", "left own 1 ERR")
	says(t, a.must("status"), "the ring is RTS", "right peer 1 ERR", "qp_state")
	says(t, b.must("qp left"), "qp_state ERR RTS")
	says(t, a.must("qp right"), "qp_state RTS ERR")
	if prompt, _ := shell.Prompt(b.Ring); !strings.Contains(prompt, "error") {
		t.Errorf("the prompt is %q", prompt)
	}
	said := a.fails("ping right", exit.Critical)
	says(t, said, "right, fault: the queue pair of rank 1", "ERR", "reset")
	if strings.Contains(said, "left, ") {
		t.Errorf("the left side has nothing to do with it:\n%s", said)
	}
	says(t, b.fails("ping left", exit.Usage), "reset comes first")
	says(t, b.fails("all-reduce --size 4K", exit.Usage), "error")
}

// Each step is shown when it is done, and the one that is due; the neighbour's end
// as far as it can be had.
func TestStatusOnTheWay(t *testing.T) {
	all := handShells(t, 2)
	a, b := all[0], all[1]
	says(t, a.fails("status", exit.Usage), "there is no ring")
	a.must("open")
	says(t, a.must("status"), "the ring is open", "init - - <- next")
	says(t, a.must("counters --all"), "soft", "growth")
	says(t, a.fails("post send left --text x", exit.Usage), "init comes first")
	says(t, a.fails("ping", exit.Usage), "init comes first")
	says(t, a.must("mr reg early --size 4K"), "early")
	a.must("init --side left")
	a.must("init --side right")
	says(t, a.must("status"), "init done done", "exchange - - <- next", "the end of rank 1 is not known")
	says(t, a.fails("post send left --text x", exit.Usage), "the queue pair is INIT: expected RTS")
	b.must("open; init")
	allDo(t, all, "exchange")
	says(t, a.must("status"), "exchange done done", "rtr - - <- next", "left peer 1 INIT")
	a.must("rtr --side left")
	says(t, a.must("status"), "rtr done - <- next")
	says(t, b.must("mr list"), "left 0 early")
}

// Own counters grow from one look to the next.
func TestOwnCounters(t *testing.T) {
	a, _ := upByHand(t)
	a.must("counters")
	a.must("ping left --iters 10")
	a.Out = render.New(&a.out, render.JSON)
	text := a.must("counters --all")
	for _, o := range objects(t, text) {
		if o["name"] == "port_xmit_packets" {
			if o["delta"].(float64) < 10 || o["delta"].(float64) > o["value"].(float64) || o["rank"] != 0.0 {
				t.Errorf("after 10 pings: %v", o)
			}
			return
		}
	}
	t.Errorf("no port_xmit_packets in\n%s", text)
}

// provoked is a failure that is made at rank 0, whose right edge leads to rank 1's
// left.
type provoked struct {
	name             string
	flags0, flags1   map[string]string // of the ranks' steps
	before0, before1 string
	line             string // at rank 0, which then polls, as does rank 1
	code0, code1     int
	why0, why1       codes.Code // of those that fail
	says0, says1     []string
}

// Whatever goes wrong, both ends name the cause: the one that posted, and the one
// that waits in vain.
func TestProvokedByHand(t *testing.T) {
	verbstest.Long(t)
	const quick = "--qp-timeout 14 --retry-cnt 2 --rnr-retry 1"
	impatient := map[string]string{"rts": quick}
	const reg = "mr reg r --size 4K"
	flushed := "Work Request Flushed Error (5)"
	for _, c := range []provoked{
		{
			name: "wrong rkey", before0: reg, before1: reg, line: "post write right --mr r --rkey 0x7fffffff", code0: exit.Critical, code1: exit.Critical,
			why0: codes.RemoteAccess, why1: codes.Flushed,
			says0: []string{"remote access error (10)", "with rkey 0x7fffffff (REM_ACCESS, 10): no region of it has this rkey"},
			says1: []string{flushed, "no region of it has this rkey"},
		},
		{
			name: "wrong address", before0: reg, before1: reg, line: "post read right --mr r --remote-addr 0x1000", code0: exit.Critical, code1: exit.Critical,
			why0: codes.RemoteAccess, why1: codes.Flushed,
			says0: []string{"remote access error (10)", "at 0x1000 with", "outside its region r"},
			says1: []string{flushed, "at 0x1000 with", "outside its region r"},
		},
		{
			name: "beyond the region", before0: reg, before1: reg, line: "post write right --mr r --length 64 --remote-offset 4090", code0: exit.Critical, code1: exit.Critical,
			why0: codes.RemoteAccess, why1: codes.Flushed,
			says0: []string{"remote access error (10)", "RDMA_WRITE of 64 bytes", "outside its region r"},
			says1: []string{flushed, "outside its region r"},
		},
		{
			name: "no remote access", before0: reg, before1: reg + " --access none", line: "post write right --mr r", code0: exit.Critical, code1: exit.Critical,
			why0: codes.RemoteAccess, why1: codes.Flushed,
			says0: []string{"remote access error (10)", "gives no REMOTE_WRITE"},
			says1: []string{flushed, "gives no REMOTE_WRITE"},
		},
		{
			name: "READ without right", before0: reg, before1: reg + " --access remote-write", line: "post read right --mr r", code0: exit.Critical, code1: exit.Critical,
			why0: codes.RemoteAccess, why1: codes.Flushed,
			says0: []string{"remote access error (10)", "gives no REMOTE_READ"},
			says1: []string{flushed, "gives no REMOTE_READ"},
		},
		{
			name: "queue pair without right", flags1: map[string]string{"init": "--access remote-write"}, before0: reg, before1: reg,
			line: "post read right --mr r", code0: exit.Critical, code1: exit.Critical,
			why0: codes.RemoteInvalid, why1: codes.Flushed,
			says0: []string{"remote invalid request error (9)", "the queue pair of rank 1", "no REMOTE_READ"},
			says1: []string{flushed, "no REMOTE_READ"},
		},
		{
			name: "longer than the receive", before0: reg, line: "post send right --mr r --length 300", code0: exit.Critical, code1: exit.Critical,
			why0: codes.RemoteInvalid, why1: codes.ReceiveTooShort,
			says0: []string{"remote invalid request error (9)", "300 bytes and the receive of rank 1", "holds 128"},
			says1: []string{"local length error (1)", "300 bytes and the receive of rank 1", "holds 128"},
		},
		{
			name: "no receive", flags0: impatient, flags1: noReceives, line: "post send right --text x", code0: exit.Critical,
			why0:  codes.RNRExceeded,
			says0: []string{"RNR retry counter exceeded (13)", "rank 1", "has no receive posted"},
			says1: []string{"0 completions", "has no receive posted", "RNR_RETRY_EXC (13)"},
		},
		{
			name: "PSN ahead", flags0: map[string]string{"init": "--psn 1000", "rts": quick}, flags1: map[string]string{"rtr": "--side left --psn 990; rtr --side right"},
			line: "post send right --text x", code0: exit.Critical,
			why0:  codes.RetryExceeded,
			says0: []string{"transport retry counter exceeded (12)", "PSN"},
			says1: []string{"0 completions", "PSN"},
		},
		{
			name: "PSN behind", flags0: map[string]string{"init": "--psn 1000"}, flags1: map[string]string{"rtr": "--side left --psn 1001; rtr --side right"},
			line:  "post send right --text x",
			says0: []string{"success (0)"}, // which is a lie, as the other end tells
			says1: []string{"0 completions", "PSN"},
		},
		{
			name: "MTU", flags0: impatient, flags1: map[string]string{"rtr": "--side left --mtu 256; rtr --side right"}, before0: reg, before1: reg,
			line: "post write right --mr r", code0: exit.Critical, code1: exit.Critical,
			why0: codes.RemoteInvalid, why1: codes.Flushed,
			says0: []string{"remote invalid request error (9)", "MTU"},
			says1: []string{flushed, "MTU"},
		},
		{
			name: "peer in INIT", flags0: impatient, flags1: map[string]string{"rtr": "--side right", "rts": "--side right"}, line: "post send right --text x", code0: exit.Critical,
			why0:  codes.RetryExceeded,
			says0: []string{"transport retry counter exceeded (12)", "INIT"},
			says1: []string{"0 completions", "INIT"},
		},
		{
			name: "bad local range", before0: reg, line: "post send right --mr r --offset 4000 --length 200", code0: exit.Critical,
			why0:  codes.LocalProtection,
			says0: []string{"local protection error (4)", "200 bytes at", "no region covers"},
			says1: []string{"0 completions", "no region covers"},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			a, b := upByHand(t, c.flags0, c.flags1)
			for h, line := range map[*hands]string{a: c.before0, b: c.before1} {
				if line != "" {
					h.must(line)
				}
			}
			a.must(c.line)
			said := a.failsFor("poll --count 1", c.code0, c.why0)
			says(t, said, c.says0...)
			says(t, b.failsFor("poll --timeout 20ms", c.code1, c.why1), c.says1...)
			for _, f := range []string{"fault: "} {
				if n := strings.Count(said, f); n > 1 {
					t.Errorf("%d faults are told of one:\n%s", n, said)
				}
			}
		})
	}
}

// What is typed by hand completes, with the names of the regions there are.
func TestByHandCompletes(t *testing.T) {
	a := handShells(t, 2)[0]
	a.must("open; mr reg mine --size 64")
	for line, want := range map[string]string{
		"po": "poll", "post ": "comp-swap", "post send l": "left", "post send left --mr m": "mine", "mr ": "dereg", "mr show ": "mine",
		"mr reg x --access remote-write,remote-r": "remote-write,remote-read", "ping ": "right", "post read left --remo": "--remote-addr",
	} {
		if got, _ := offeredBy(a.table, command.Line, strings.Split(line, " ")...); !slices.Contains(got, want) {
			t.Errorf("%q offers %q: expected %s among them", line, got, want)
		}
	}
	a.must("close")
	if got, _ := offeredBy(a.table, command.Line, "mr", "show", ""); slices.Contains(got, "mine") {
		t.Errorf("after close there is %q", got)
	}
}

// Mistakes are named before anything is posted.
func TestMistakesByHand(t *testing.T) {
	a := handShells(t, 2)[0]
	a.must("open; init; mr reg a --size 16")
	for line, want := range map[string]string{
		"mr":                                    "expected reg NAME, list",
		"mr reg":                                "expected one name",
		"mr list a":                             "expected none",
		"mr reg a":                              "there is a region of this name",
		"mr reg slots":                          "expected a name",
		"mr reg b --size 0":                     "expected 1 to",
		"mr reg b --fill 0xabc":                 "pairs of hexadecimal digits",
		"mr reg b --access root":                "expected remote-write",
		"mr show b":                             "no region \"b\" here",
		"mr show a --offset 16":                 "expected 0 to 15",
		"mr dereg b":                            "no region \"b\" here",
		"post jump left":                        "expected recv, send",
		"post send":                             "and left or right",
		"post send up":                          "expected left or right",
		"post recv left --imm 5":                "--imm: expected only",
		"post send left --rkey 5":               "--rkey: expected only",
		"post send left --mr a --text x":        "expected one of them",
		"post send left --offset 4":             "without --mr",
		"post read left --text x":               "--text: expected only",
		"post read left":                        "expected --mr NAME",
		"post fetch-add left --mr a --length 8": "--length: expected only",
		"post send left --imm 0x100000000":      "expected 32 bits",
		"post send left --mr b":                 "no region \"b\" here",
		"post send left --text " + strings.Repeat("x", 129): "expected at most 128",
		"post send left --text x":                           "the queue pair is INIT: expected RTS",
		"poll --count 0":                                    "expected a number of completions",
		"ping both":                                         "expected left or right",
	} {
		says(t, a.fails(line, exit.Usage), want)
	}
	says(t, a.fails("post write left --mr a", exit.Critical), "which regions the left neighbour has", "--remote-addr and --rkey do without")
}

// Two programs, their output as JSON, which the schema describes.
func TestByHandInPrograms(t *testing.T) {
	t.Parallel()
	list := strings.Join(freshList(t, 2), ",")
	const up = "open; init; exchange; rtr; rts; mr reg a --size 4K --fill 0x01020304; "
	common := []string{"shell", "--list", list, "--output", "json", "--timeout", "30s"}
	b := launch(t, append(common, "--index", "1", "-c", up+"poll --count 1 --timeout 20s; post send left --text done; poll --count 1; mr show a --length 16; close")...)
	code, stdout, stderr := finish(t, append(common, "--index", "0", "-c",
		up+"status; ping; mr list; counters; post write right --mr a --remote-offset 4; poll --count 1; post send right --text go; poll --count 2 --timeout 20s; close")...)
	if code != exit.OK {
		t.Fatalf("rank 0: exit code %d\n%s%s", code, stdout, stderr)
	}
	if code := b.end(t, hung); code != exit.OK {
		t.Fatalf("rank 1: exit code %d\n%s%s", code, &b.stdout, &b.stderr)
	}
	count := map[string]int{}
	for _, o := range append(objects(t, stdout), objects(t, b.stdout.String())...) {
		count[fmt.Sprint(o["command"])]++
		if o["ok"] != true && o["command"] != "init" { // at which the peer is not known yet
			t.Errorf("not ok: %v", o)
		}
	}
	for command, least := range map[string]int{"status": 9, "ping": 2, "mr": 8, "post": 3, "poll": 5} {
		if count[command] < least {
			t.Errorf("%d objects of %s: expected %d or more\n%s", count[command], command, least, stdout)
		}
	}
}

// That the ring is over is said once, and not again of each side.
func TestAGoodbyeIsToldOnce(t *testing.T) {
	a, b := upByHand(t)
	b.must("close")
	// A ping ends with the goodbye, or finds the ring over.
	said := a.fails("ping right", exit.Critical)
	if n := strings.Count(said, "has left the ring"); n != 1 {
		t.Errorf("it is told %d times:\n%s", n, said)
	}
	if status := a.must("status"); !strings.Contains(status, "it has failed: rank 1 (") {
		says(t, status, "the end of rank 1 is not known")
	}
}
