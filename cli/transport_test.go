package cli

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ringcli/cli/exit"
)

// heard is what a process that runs has written.
type heard struct {
	mu   sync.Mutex
	text []byte // guarded by mu
}

func (h *heard) Write(b []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.text = append(h.text, b...)
	return len(b), nil
}

func (h *heard) String() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return string(h.text)
}

// until waits until it has written a text so often.
func (h *heard) until(t *testing.T, text string, times int) {
	t.Helper()
	for deadline := time.Now().Add(hung); strings.Count(h.String(), text) < times; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it has not written %q %d times: %s", text, times, h)
		}
	}
}

// serving is a `transport serve` that has a port.
type serving struct {
	*process
	host string // HOST:PORT
	out  heard
	read int // lines
}

// served starts a server on a free port of where it listens by itself: a loopback address.
func served(t *testing.T, flags string) (v *serving, first map[string]any) {
	t.Helper()
	v = &serving{process: program(t, words("transport serve --output json --tcp-port 0 "+flags)...)}
	v.Stdout = &v.out
	v.start(t)
	first = v.next(t)
	if v.host = fmt.Sprintf("127.0.0.1:%v", first["port"]); !strings.Contains(flags, "--bind") && first["listen"] != v.host {
		t.Errorf("it listens on %v: expected %s", first["listen"], v.host)
	}
	return v, first
}

// next is the next line that it prints.
func (v *serving) next(t *testing.T) map[string]any {
	t.Helper()
	v.read++
	v.out.until(t, "\n", v.read)
	return objects(t, strings.Split(v.out.String(), "\n")[v.read-1]+"\n")[0]
}

// stop ends it as Ctrl-C does.
func (v *serving) stop(t *testing.T) {
	t.Helper()
	if err := v.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := v.end(t, hung); code != exit.Interrupted {
		t.Errorf("the server: exit code %d: %s", code, v.stderr.String())
	}
}

// benchReport is what a test reads of Google Benchmark's JSON.
type benchReport struct {
	Context    map[string]any `json:"context"`
	Benchmarks []struct {
		Name       string  `json:"name"`
		RunType    string  `json:"run_type"`
		Iterations int     `json:"iterations"`
		RealTime   float64 `json:"real_time"`
		Rate       float64 `json:"bytes_per_second"`
		OfMemcpy   float64 `json:"of_memcpy"`
		OfH100     float64 `json:"of_h100"`
	} `json:"benchmarks"`
}

func reportOf(t *testing.T, text string) (r benchReport) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), &r); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return r
}

// A bench against a server of its own measures all, over each device, and leaves the server
// behind nowhere; the file has the same as the output.
func TestTransportBench(t *testing.T) {
	for _, device := range []string{"shm", "soft:lo"} {
		file := filepath.Join(t.TempDir(), "out.json")
		code, stdout, stderr := finish(t, words("transport bench -b 8K -e 16K --benchmark_min_time 3x --beside h100 --output json --benchmark_out "+file+" --device "+device)...)
		if code != exit.OK {
			t.Fatalf("%s: exit code %d: %s", device, code, stderr)
		}
		r := reportOf(t, stdout)
		if got := fmt.Sprint(r.Context["device"], r.Context["server_device"]); strings.Count(got, strings.Split(device, ":")[0]+":") < 2 || strings.Count(got, "asked for") != 2 {
			t.Errorf("%s: the devices are %s", device, got)
		}
		var names []string
		for _, b := range r.Benchmarks {
			names = append(names, b.Name)
			if b.Iterations != 3 || b.RealTime <= 0 || b.RunType != "iteration" {
				t.Errorf("%s: %+v", device, b)
			}
			if strings.Contains(b.Name, "Transport_Write") && (b.OfMemcpy <= 0 || b.OfH100 <= 0 || b.Rate <= 0) {
				t.Errorf("%s: %+v: expected shares", device, b)
			}
		}
		want := words("Write Batch Read RoundTrip Register")
		var expected []string
		for _, family := range append(want, "") {
			for _, size := range []string{"8192", "16384"} {
				name := "BM_RdmaTransport_" + family
				if family == "" {
					name = "BM_Memcpy"
				}
				expected = append(expected, name+"/"+size+"/real_time")
			}
		}
		if !slices.Equal(names, expected) {
			t.Errorf("%s: %q\nexpected %q", device, names, expected)
		}
		if b, err := os.ReadFile(file); err != nil || string(b) != stdout {
			t.Errorf("%s: the file differs: %v", device, err)
		}
		var pid int
		server, host := fmt.Sprint(r.Context["server"]), hostname(t)
		if _, err := fmt.Sscanf(strings.TrimPrefix(server, host+":"), "%d", &pid); err != nil || syscall.Kill(pid, 0) == nil {
			t.Errorf("%s: the server %q is still there, or has no process: %v", device, server, err)
		}
	}
}

// The table, the filter and the list.
func TestTransportBenchPrints(t *testing.T) {
	code, stdout, stderr := finish(t, words("transport bench --device shm -b 8K -e 8K --benchmark_filter=_Write --benchmark_min_time 2x")...)
	lines := strings.Split(stdout, "\n")
	if code != exit.OK || len(lines) != 5 || !strings.HasPrefix(lines[1], "Benchmark ") || !strings.Contains(lines[3], " bytes_per_second=") {
		t.Errorf("exit code %d: %d lines: %s%s", code, len(lines), stdout, stderr)
	}
	for _, part := range []string{"Running ringcli transport bench\n", "device: shm:0: ", "server_device: shm:0: ", "rdma: "} {
		if !strings.Contains(stderr, part) {
			t.Errorf("no %q in %s", part, stderr)
		}
	}
	code, stdout, _ = here(t, words("transport bench -e 16K --benchmark_filter=-Transport --benchmark_list_tests")...)
	if code != exit.OK || stdout != "BM_Memcpy/8192/real_time\nBM_Memcpy/16384/real_time\n" {
		t.Errorf("the list: exit code %d: %s", code, stdout)
	}
}

// Two processes: the server serves one client after the other, says so, and outlives one
// that is killed.
func TestTransportServe(t *testing.T) {
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("0123456789abcdef"), 0o600); err != nil {
		t.Fatal(err)
	}
	v, first := served(t, "--device soft:lo --timeout 20s --token-file "+token)
	if first["ok"] != true || first["device"] != "soft:lo" || first["token"] != true || first["why"] == "" || first["rdma_why"] == "" {
		t.Errorf("%v", first)
	}
	bench := "transport bench -b 8K -e 8K --device soft:lo --token-file " + token + " "
	const endless = "--benchmark_filter=_Write --benchmark_min_time 3000s "
	var saidLong heard
	long := program(t, words(bench+endless+v.host)...)
	long.Stderr = &saidLong
	long.start(t)
	saidLong.until(t, "server_device", 1)
	// One that waited would do so for 20 minutes.
	if code, _, stderr := finish(t, words(bench+"--timeout 20m "+v.host)...); code != exit.Critical || !strings.Contains(stderr, v.host+" is busy: it serves "+hostname(t)+":"+strconv.Itoa(long.Process.Pid)+" (127.0.0.1:") || !strings.Contains(stderr, ", since ") {
		t.Errorf("beside another client: exit code %d: %s", code, stderr)
	}
	if err := long.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	if r := v.next(t); r["ok"] != false || r["purpose"] != "bench" || r["device"] != "soft:lo" {
		t.Errorf("the client that was killed: %v", r)
	}
	if code, stdout, stderr := whenFree(t, words(bench+"--benchmark_min_time 2x "+v.host)...); code != exit.OK {
		t.Errorf("exit code %d: %s%s", code, stdout, stderr)
	}
	if r := v.next(t); r["ok"] != true || r["client"] == "" {
		t.Errorf("the next client: %v", r)
	}
	if code, _, stderr := finish(t, words("transport bench -b 8K -e 8K --device soft:lo "+v.host)...); code != exit.Usage || !strings.Contains(stderr, "token") {
		t.Errorf("without the token: exit code %d: %s", code, stderr)
	}
	v.stop(t)
}

// whenFree runs a client to its end, again while the server is busy with another.
func whenFree(t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(10 * time.Millisecond) {
		if code, stdout, stderr = finish(t, args...); !strings.Contains(stderr, " is busy: ") || time.Since(begun) > hung {
			return code, stdout, stderr
		}
	}
}

// With --bind the server is there for other machines, too.
func TestTransportServeBind(t *testing.T) {
	v, first := served(t, "--device soft --bind 0.0.0.0")
	if listen := fmt.Sprint(first["listen"]); !strings.HasPrefix(listen, "[::]:") && !strings.HasPrefix(listen, "0.0.0.0:") {
		t.Errorf("it listens on %v", listen)
	}
	if code, _, stderr := finish(t, words("transport bench -b 8K -e 8K --benchmark_filter=_Write --benchmark_min_time 2x --device soft "+v.host)...); code != exit.OK {
		t.Errorf("exit code %d: %s", code, stderr)
	}
	v.stop(t)
}

// A server that is killed ends its client, which says so.
func TestTransportServerDies(t *testing.T) {
	for _, device := range []string{"shm", "soft:lo"} {
		v, _ := served(t, "--device "+device)
		var said heard
		p := program(t, words("transport bench -b 8K -e 8K --timeout 20s --benchmark_filter=RoundTrip --benchmark_min_time 3000s --device "+device+" "+v.host)...)
		p.Stderr = &said
		p.start(t)
		said.until(t, "server_device", 1)
		if err := v.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		if code := p.end(t, hung); code != exit.Critical || !strings.Contains(said.String(), "ringcli: ") {
			t.Errorf("%s: exit code %d: %s", device, code, said.String())
		}
	}
}

// Ctrl-C ends a bench and the server of its own.
func TestTransportBenchInterrupted(t *testing.T) {
	p := program(t, words("transport bench -b 8K -e 8K --device shm --output json --benchmark_filter=_Write --benchmark_min_time 3000s")...)
	p.start(t)
	for begun := time.Now(); len(startedBy(t, p.Process.Pid)) == 0 && time.Since(begun) < hung; {
		time.Sleep(5 * time.Millisecond) // it has not begun, and Ctrl-C would be no more than a signal
	}
	time.Sleep(500 * time.Millisecond) // at whatever it is
	if err := p.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := p.end(t, hung); code != exit.Interrupted {
		t.Errorf("exit code %d: %s", code, p.stderr.String())
	}
	out := p.stdout.String()
	for d := json.NewDecoder(strings.NewReader(out)); d.More(); {
		var v map[string]any
		if err := d.Decode(&v); err != nil {
			t.Fatalf("what was printed is no JSON: %v: %s", err, out)
		}
	}
}

func TestTransportBadInput(t *testing.T) {
	for line, want := range map[string][]string{
		"transport":                                         {"serve, bench"},
		"transport fly":                                     {`"fly"`, "serve, bench"},
		"transport serve host":                              {`"host"`},
		"transport bench a b":                               {`"b"`, "HOST"},
		"transport bench a:b":                               {`"a:b"`, "HOST:PORT"},
		"transport bench -b 0":                              {"-b 0"},
		"transport bench -b 2K -e 1K":                       {"-b 2K", "least size first"},
		"transport bench -e 5G":                             {"-e 5G", "4G"},
		"transport bench --benchmark_filter=none":           {`"none"`, "--benchmark_list_tests"},
		"transport bench --benchmark_filter=(":              {"benchmark_filter"},
		"transport bench --benchmark_min_time=fast":         {`"fast"`, "0.5s"},
		"transport bench --benchmark_min_time=0x":           {`"0x"`, "1e9"},
		"transport bench --output csv":                      {"table or json"},
		"transport bench --beside v100":                     {`"v100"`, "h100"},
		"transport bench --bind 127.0.0.1":                  {"--bind", "transport serve"},
		"transport bench --benchmark_out=/no/where":         {"/no/where"},
		"transport serve --begin 8":                         {"--begin", "transport bench"},
		"transport serve --bind here":                       {`"here"`, "IP address"},
		"transport serve --bind=":                           {`--bind ""`, "0.0.0.0"},
		"transport serve --bind 192.0.2.1":                  {"192.0.2.1", "--bind"},
		"transport serve --device nothing:x":                {"nothing:x"},
		"transport bench --device nothing:x":                {"nothing:x"},
		"transport bench --device soft --inject soft:":      {"inject"},
		"transport bench --device shm --inject soft:loss=1": {"inject"},
		"transport bench no-such-host.invalid":              {"no-such-host.invalid"},
		"transport serve --tcp-port 70000":                  {"70000", "65535"},
	} {
		misused(t, line, want)
	}
}

func hostname(t *testing.T) string {
	t.Helper()
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	return host
}
