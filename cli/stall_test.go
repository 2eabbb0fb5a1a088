package cli

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"ringcli/ring"
)

// begun is a writer that tells when something is written first.
type begun struct {
	io.Writer
	once sync.Once
	c    chan struct{}
}

func (b *begun) Write(p []byte) (int, error) {
	b.once.Do(func() { close(b.c) })
	return b.Writer.Write(p)
}

// computing starts a ring on nodes that each have an address and a network of their own, and
// returns its ranks when the first line of the script is through.
func computing(t *testing.T, names island, script string, args ...string) []*process {
	t.Helper()
	ranks := make([]*process, len(names))
	first := &begun{c: make(chan struct{})}
	for i, name := range names {
		p := program(t, append([]string{"connect", "--index", fmt.Sprint(i), "--list", names.list(), "--device", "soft", "--timeout", "20s", "-c", script}, args...)...)
		if i == 0 {
			first.Writer = p.Stdout
			p.Stdout = first
		}
		p.in(name).start(t)
		ranks[i] = p
	}
	select {
	case <-first.c:
	case <-time.After(hung):
		t.Fatal("the ring does not come up")
	}
	return ranks
}

// awaitTraffic waits until a node has sent so many bytes more.
func (names island) awaitTraffic(t *testing.T, node int, bytes uint64) {
	t.Helper()
	sent := func() uint64 {
		text, err := exec.Command("ip", "netns", "exec", names[node], "cat", "/sys/class/net/eth0/statistics/tx_bytes").Output()
		n, bad := strconv.ParseUint(strings.TrimSpace(string(text)), 10, 64)
		if err := errors.Join(err, bad); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before, end := sent(), time.Now().Add(hung)
	for sent() < before+bytes {
		if time.Now().After(end) {
			t.Fatalf("node %d has sent %d bytes in %s: expected %d", node, sent()-before, hung, bytes)
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// stalledRing runs a ring of three nodes, has something happen while they compute, and returns
// how each rank ended and the verdict of its last line.
func stalledRing(t *testing.T, happens func(names island, ranks []*process), skip int, args ...string) (verdicts []ring.Verdict, texts []string) {
	t.Helper()
	const n = 3
	names := newIsland(t, n)
	for i, name := range names {
		ip(t, "-n", name, "link", "set", "dev", "eth0", "mtu", "9000", "gso_max_segs", "1") // a train of packets is not held against an MTU
		ip(t, "-n", names.bridge(), "link", "set", "dev", fmt.Sprintf("port%d", i), "mtu", "9000")
	}
	const once = "all-reduce --size 4M --protocol eager --algorithm ring"
	ranks := computing(t, names, once+" --iters 1 --warmup 0; "+once+" --duration 60s", append([]string{"--output", "json"}, args...)...)
	time.Sleep(200 * time.Millisecond) // in the middle of the second
	happens(names, ranks)
	verdicts, texts = make([]ring.Verdict, n), make([]string, n)
	for i, p := range ranks {
		if i == skip {
			continue
		}
		if code := p.end(t, hung); code != 2 {
			t.Errorf("rank %d: exit code %d", i, code)
		}
		lines := strings.Split(strings.TrimSpace(p.stdout.String()), "\n")
		var last struct {
			Error   string        `json:"error"`
			Verdict *ring.Verdict `json:"verdict"`
		}
		for _, line := range lines {
			if err := json.Unmarshal([]byte(line), &last); err != nil {
				t.Fatalf("rank %d: %v: %s", i, err, line)
			}
			if last.Verdict != nil {
				verdicts[i] = *last.Verdict
			}
			if last.Error != "" {
				texts[i] += last.Error + "\n"
			}
		}
		t.Logf("rank %d: %s\n%s", i, p.stdout.String(), p.stderr.String())
	}
	return verdicts, texts
}

// A path that stops to carry what ranks send to each other is named on all ranks by its
// direction, and by the length of what it still carries.
func TestPathFails(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for retries; `make test-long` runs it")
	}
	udp := []string{"ipproto", "udp", "dport", "4791"}
	for name, c := range map[string]struct {
		happens func(names island)
		rank    int // -1: an edge is at fault
		edge    ring.Direction
		words   string
		bad     string // hosts
	}{
		"there": {func(names island) {
			names.drop(t, 2, append([]string{"from", "10.77.0.2"}, udp...)...)
		}, -1, ring.Direction{From: 1, To: 2}, "what rank 1 (10.77.0.2:18600) sends to rank 2 (10.77.0.3:18600) over UDP port 4791 does not arrive; what rank 2 sends does", ""},
		"back": {func(names island) {
			names.drop(t, 1, append([]string{"from", "10.77.0.3"}, udp...)...)
		}, -1, ring.Direction{From: 2, To: 1}, "what rank 2 (10.77.0.3:18600) sends to rank 1 (10.77.0.2:18600) over UDP port 4791 does not arrive; what rank 1 sends does", ""},
		"receiver": {func(names island) {
			names.drop(t, 2, udp...)
		}, 2, ring.Direction{}, "rank 2 (10.77.0.3:18600) receives nothing over UDP port 4791, from ranks 0, 1; what it sends arrives", "10.77.0.3\n"},
		"mtu": {func(names island) {
			ip(t, "-n", names.bridge(), "link", "set", "dev", "port2", "mtu", "1200")
		}, 2, ring.Direction{}, "no packet with over 1024 bytes of payload passes between rank 2 (10.77.0.3:18600) and ranks 0, 1 over UDP port 4791, in either direction", "10.77.0.3\n"},
	} {
		t.Run(name, func(t *testing.T) {
			reports := t.TempDir()
			verdicts, texts := stalledRing(t, func(names island, _ []*process) { c.happens(names) }, -1,
				"--junit", reports+"/%r.xml", "--metrics", reports+"/%r.prom", "--bad-hosts", reports+"/%r.bad")
			// All that a rank writes says the same.
			metric, junit := fmt.Sprintf(`ringcli_rank_success{ring="*",command="connect",rank="%%d",of_rank="%d"} 0`, c.rank), fmt.Sprintf("rank %d", c.rank)
			if c.rank < 0 {
				metric, junit = fmt.Sprintf(`ringcli_edge_success{ring="*",command="connect",rank="%%d",from="%d",to="%d"} 0`, c.edge.From, c.edge.To), fmt.Sprintf("rank %d to rank %d", c.edge.From, c.edge.To)
			}
			for rank, v := range verdicts {
				if v.Kind != "edge" || v.Rank != c.rank || v.Edge != c.edge || v.Confidence != "certain" || !strings.Contains(texts[rank], c.words) {
					t.Errorf("rank %d: %+v\n%s", rank, v, texts[rank])
				}
				read := func(file string) string {
					text, err := os.ReadFile(filepath.Join(reports, fmt.Sprint(rank, file)))
					if err != nil {
						t.Error(err)
					}
					return string(text)
				}
				var blamed []string
				for line := range strings.Lines(read(".prom")) {
					if strings.HasSuffix(line, " 0\n") && (strings.HasPrefix(line, "ringcli_rank_success") || strings.HasPrefix(line, "ringcli_edge_success")) {
						blamed = append(blamed, strings.TrimSpace(line))
					}
				}
				if want := fmt.Sprintf(metric, rank); !slices.Equal(blamed, []string{want}) {
					t.Errorf("rank %d: the metrics blame %q: expected %q", rank, blamed, want)
				}
				failed := regexp.MustCompile(`<testcase name="(rank[^"]*)"[^>]*>\s*<failure`).FindAllStringSubmatch(read(".xml"), -1)
				if len(failed) != 1 || failed[0][1] != junit {
					t.Errorf("rank %d: of ranks and edges %q fail: expected %s", rank, failed, junit)
				}
				if bad := read(".bad"); bad != c.bad {
					t.Errorf("rank %d: bad hosts %q: expected %q", rank, bad, c.bad)
				}
			}
		})
	}
}

// Where TCP between two ranks stalls and their data goes on, a measurement that lasts does.
func TestTCPStallsBesideData(t *testing.T) {
	if testing.Short() {
		t.Skip("it lasts; `make test-long` runs it")
	}
	const n = 3
	names := newIsland(t, n)
	ranks := computing(t, names, "all-reduce --size 64K --iters 1 --warmup 0; all-reduce --size 64K --check --duration 10s")
	names.awaitTraffic(t, 1, 10<<20) // that measurement begins over TCP
	names.drop(t, 1, "from", "10.77.0.3", "ipproto", "tcp")
	names.drop(t, 2, "from", "10.77.0.2", "ipproto", "tcp")
	time.Sleep(4 * time.Second) // more than any host is given
	for i := 1; i < n; i++ {
		ip(t, "-n", names[i], "rule", "delete", "pref", "50")
	}
	for i, p := range ranks {
		if code := p.end(t, hung); code != 0 {
			t.Errorf("rank %d: exit code %d\n%s", i, code, p.stderr.String())
		}
	}
}

// A node that vanishes without a word, and one whose process is stopped, is named as such by
// those that its packets do not reach any more.
func TestPeerVanishes(t *testing.T) {
	if testing.Short() {
		t.Skip("it waits for silence; `make test-long` runs it")
	}
	for name, c := range map[string]struct {
		happens func(names island, ranks []*process)
		kinds   string // of which the verdict is one: a rank that is cut off may have ended, or be silent in no operation
	}{
		"down":    {func(names island, _ []*process) { ip(t, "-n", names[1], "link", "set", "dev", "eth0", "down") }, "silent lost isolated edge"},
		"stopped": {func(_ island, ranks []*process) { _ = ranks[1].Process.Signal(syscall.SIGSTOP) }, "stopped"},
		"killed":  {func(_ island, ranks []*process) { _ = ranks[1].Process.Kill() }, "lost"},
	} {
		t.Run(name, func(t *testing.T) {
			verdicts, texts := stalledRing(t, c.happens, 1)
			for rank, v := range verdicts {
				if rank != 1 && (!strings.Contains(c.kinds, string(v.Kind)) || v.Rank != 1 && v.Edge.From != 1 && v.Edge.To != 1 || v.Kind != "lost" && v.Kind != "silent" && (v.Doing.Operation == 0 || v.Doing.Words == "")) {
					t.Errorf("rank %d: %+v\n%s", rank, v, texts[rank])
				}
			}
		})
	}
}
