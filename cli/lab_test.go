package cli

import (
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ringcli/cli/exit"
)

// labSteps are the steps of a lab's JSON output; the summary is last.
func labSteps(t *testing.T, output string) (steps []map[string]any, summary map[string]any) {
	t.Helper()
	for _, o := range objects(t, output) {
		switch {
		case o["step"] != nil:
			steps = append(steps, o)
		case o["steps"] != nil:
			summary = o
		}
	}
	if summary == nil {
		t.Fatalf("no summary in %s", output)
	}
	return steps, summary
}

func valueAt(step map[string]any, end, name string) string {
	values, _ := step[end].(map[string]any)
	text, _ := values[name].(string)
	return text
}

func TestLabA(t *testing.T) {
	code, stdout, stderr := here(t, words("lab a --device soft:lo --output json")...)
	steps, summary := labSteps(t, stdout)
	if code != exit.OK || stderr != "" || len(steps) != 13 || summary["ok"] != true || summary["steps"] != 13.0 {
		t.Fatalf("exit code %d, %d steps, summary %v, %s", code, len(steps), summary, stderr)
	}
	for i, name := range []string{"RESET", "INIT", "RTR", "RTS"} {
		step := steps[4+i]
		if valueAt(step, "values", "state") != name || valueAt(step, "peer", "state") != name {
			t.Errorf("step %v: %v", step["name"], step)
		}
	}
	rtr, rts := steps[6], steps[7]
	for _, ends := range [][2]string{{"values", "peer"}, {"peer", "values"}} {
		if got, want := valueAt(rtr, ends[0], "rq_psn"), valueAt(rts, ends[1], "sq_psn"); got != want || got == "" {
			t.Errorf("%s expects PSN %s first, the other end sends %s", ends[0], got, want)
		}
		if got, want := valueAt(rtr, ends[0], "dest_qp_num"), valueAt(rtr, ends[1], "qp_num"); got != want || got == "" {
			t.Errorf("%s talks to %s, the other end is %s", ends[0], got, want)
		}
	}
	for _, step := range steps[9:] {
		if valueAt(step, "values", "verified")+valueAt(step, "peer", "verified") != "8192 bytes" {
			t.Errorf("%v: not verified: %v", step["name"], step)
		}
	}
}

func TestLabAFails(t *testing.T) {
	for flags, want := range map[string]struct {
		step  float64
		parts []string
	}{
		"--rkey 0xdeadbeef":     {12, []string{"REM_ACCESS_ERR (10", "rkey 0xdeadbeef", "the peer's region has rkey"}},
		"--raddr 4096":          {12, []string{"REM_ACCESS_ERR (10", "at 0x5000", "the peer's region is"}},
		"--dest-qpn 0xfffff":    {10, []string{"RETRY_EXC_ERR (12", "dest_qp_num is 0x0fffff"}},
		"--psn 5 --timeout 10s": {11, []string{"rq_psn was set to 0x000005"}},
	} {
		t.Run(flags, func(t *testing.T) {
			t.Parallel()
			code, stdout, stderr := here(t, words("lab a --device soft:lo --output json --explain "+flags)...)
			steps, summary := labSteps(t, stdout)
			last := steps[len(steps)-1]
			if code != exit.Critical || stderr != "" || summary["ok"] != false || last["ok"] != false || last["step"] != want.step {
				t.Fatalf("exit code %d, last step %v, summary %v, %s", code, last, summary, stderr)
			}
			text, _ := last["error"].(string)
			for _, part := range want.parts {
				if !strings.Contains(text, part) {
					t.Errorf("no %q in %q", part, text)
				}
			}
		})
	}
}

// pairOfLabs runs both ends of lab c to their end.
func pairOfLabs(t *testing.T, flags ...string) (ends [2]*process, codes [2]int) {
	t.Helper()
	list := strings.Join(freshList(t, 2), ",")
	for rank := range ends {
		args := words("lab c --device soft:lo --output json --list " + list + " --index " + strconv.Itoa(rank))
		ends[rank] = launch(t, append(args, words(flags[rank])...)...)
	}
	var both sync.WaitGroup
	for rank, p := range ends {
		both.Go(func() { codes[rank] = p.end(t, hung) })
	}
	both.Wait()
	return ends, codes
}

func TestLabC(t *testing.T) {
	ends, codes := pairOfLabs(t, "--size 100000 --mtu 1024", "--size 100000")
	for rank, p := range ends {
		if codes[rank] != exit.OK {
			t.Fatalf("rank %d: exit code %d: %s%s", rank, codes[rank], p.stdout.String(), p.stderr.String())
		}
		steps, summary := labSteps(t, p.stdout.String())
		if len(steps) != 12 || summary["ok"] != true || summary["rank"] != float64(rank) {
			t.Errorf("rank %d: %d steps, summary %v", rank, len(steps), summary)
		}
		for _, step := range steps[9:] {
			for _, end := range []string{"values", "peer"} {
				if !strings.HasPrefix(valueAt(step, end, "verified"), "100000 bytes of rank ") {
					t.Errorf("rank %d, %v: %s not verified: %v", rank, step["name"], end, step)
				}
			}
		}
	}
	// What each end shows of the other is what that shows of itself.
	own, _ := labSteps(t, ends[0].stdout.String())
	other, _ := labSteps(t, ends[1].stdout.String())
	for _, i := range []int{5, 6} {
		for _, name := range []string{"qp_num", "state", "dest_qp_num", "rq_psn", "sq_psn", "path_mtu", "dgid"} {
			if a, b := valueAt(own[i], "peer", name), valueAt(other[i], "values", name); a != b {
				t.Errorf("%v, %s: rank 0 shows %q of rank 1, which says %q", own[i]["name"], name, a, b)
			}
		}
	}
	if valueAt(own[5], "values", "path_mtu") != "1024" || valueAt(other[5], "values", "path_mtu") != "1024" {
		t.Error("the path MTU is not the smaller of both ends'")
	}
}

// A wrong rkey at one end fails at both, which name the error and the key.
func TestLabCWrongKey(t *testing.T) {
	for rank := range 2 {
		flags := []string{"", ""}
		flags[rank] = "--rkey 0xdeadbeef"
		ends, codes := pairOfLabs(t, flags...)
		for at, p := range ends {
			steps, summary := labSteps(t, p.stdout.String())
			last := steps[len(steps)-1]
			text, _ := last["error"].(string)
			if codes[at] != exit.Critical || summary["ok"] != false || last["name"] != "WRITE" ||
				!strings.Contains(text, "REM_ACCESS_ERR (10, remote access error)") || !strings.Contains(text, "rkey 0xdeadbeef") {
				t.Errorf("wrong at rank %d: rank %d: exit code %d, last step %v", rank, at, codes[at], last)
			}
			if valueAt(last, "values", "state") != "ERR" {
				t.Errorf("rank %d: its queue pair is in %q after it", at, valueAt(last, "values", "state"))
			}
		}
	}
}

// Wrong values of RTR are known to both ends by what the live queue pairs said.
func TestLabCWrongPeer(t *testing.T) {
	ends, codes := pairOfLabs(t, "--qp-timeout 10", "--qp-timeout 10 --dest-qpn 0xfffff --timeout 10s")
	for at, p := range ends {
		steps, _ := labSteps(t, p.stdout.String())
		text, _ := steps[len(steps)-1]["error"].(string)
		if codes[at] != exit.Critical || !strings.Contains(text, "RETRY_EXC_ERR (12") || !strings.Contains(text, "0x0fffff") {
			t.Errorf("rank %d: exit code %d: %s", at, codes[at], text)
		}
	}
}

func TestLabCSizesDiffer(t *testing.T) {
	ends, codes := pairOfLabs(t, "--size 64", "--size 65")
	for at, p := range ends {
		if codes[at] != exit.Critical || !strings.Contains(p.stdout.String(), "expected the same --size on both") {
			t.Errorf("rank %d: exit code %d: %s", at, codes[at], p.stdout.String())
		}
	}
}

// Nobody comes: the wait has a deadline, and its error says who was awaited, and who
// has come instead.
func TestLabCAlone(t *testing.T) {
	list := freshList(t, 2)
	base := "lab c --device soft:lo --timeout 1s --list " + strings.Join(list, ",")
	for rank, want := range []string{"rank 1 has not connected to " + list[0], "rank 0 has not answered on " + list[0]} {
		code, _, stderr := finish(t, words(base+" --index "+strconv.Itoa(rank))...)
		if code != exit.Critical || !strings.Contains(stderr, want) || !strings.Contains(stderr, "within 1s") {
			t.Errorf("rank %d: exit code %d: %s", rank, code, stderr)
		}
	}
	p := launch(t, words(strings.Replace(base, "1s", "3s", 1)+" --index 0")...)
	conn := dialUntil(t, list[0])
	if _, err := io.WriteString(conn, "0000:000011:abcdef:00000000000000000000ffff7f000001\x00"); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t, hung); code != exit.Critical || !strings.Contains(p.stderr.String(), "ibv_rc_pingpong") {
		t.Errorf("a stranger: exit code %d: %s", code, p.stderr.String())
	}
	gone(t, list)
}

func dialUntil(t *testing.T, address string) net.Conn {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			t.Cleanup(func() { _ = conn.Close() })
			return conn
		}
		if time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
}

// Ctrl-C while it waits for the other end leaves nothing behind.
func TestLabCInterrupted(t *testing.T) {
	list := freshList(t, 2)
	p := launch(t, words("lab c --device soft:lo --index 0 --list "+strings.Join(list, ","))...)
	conn := dialUntil(t, list[0])
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t, hung); code != exit.Interrupted {
		t.Errorf("exit code %d: %s", code, p.stderr.String())
	}
	_ = conn.Close()
	gone(t, list)
}

func TestLabBadInput(t *testing.T) {
	for line, want := range map[string][]string{
		"lab":                                {"which one?", "a, b, c"},
		"lab x":                              {`"x"`, "a, b, c"},
		"lab a more":                         {`"more"`},
		"lab a --list x,y":                   {"--list", "lab c"},
		"lab a --size 0":                     {"--size 0", "64M"},
		"lab a --size 1G":                    {"--size 1G", "64M"},
		"lab a --rkey much":                  {`"much"`, "--rkey", "0x"},
		"lab a --device nothing:here":        {"nothing:here", "soft:lo"},
		"lab a --device soft:lo --port 9":    {"port 9"},
		"lab a --gid-index 200":              {"gid-index 200"},
		"lab c":                              {"--list HOST0,HOST1"},
		"lab c --list 127.0.0.1,127.0.0.2":   {"--index 0"},
		"lab c --list 127.0.0.1 --index 0":   {"1", "HOST0,HOST1"},
		"lab c --list a.invalid,b --index 5": {"index 5", "0 or 1"},
	} {
		misused(t, line, want)
	}
}

// What --explain says fits a terminal, and each step has its libibverbs call.
func TestLabExplains(t *testing.T) {
	code, stdout, _ := here(t, words("lab a --device soft:lo --explain")...)
	if code != exit.OK {
		t.Fatalf("exit code %d: %s", code, stdout)
	}
	for _, call := range []string{"ibv_open_device", "ibv_alloc_pd", "ibv_create_cq", "ibv_reg_mr", "ibv_create_qp", "ibv_modify_qp", "ibv_post_recv", "ibv_post_send", "ibv_poll_cq"} {
		if !strings.Contains(stdout, call) {
			t.Errorf("%s is not mentioned", call)
		}
	}
	for line := range strings.Lines(stdout) {
		if strings.HasPrefix(line, "#") && len(line) > 81 {
			t.Errorf("wider than 80 columns: %s", line)
		}
	}
}
