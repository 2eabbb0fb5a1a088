package cli

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ringcli/cli/render"
	"ringcli/verbs"
)

var update = flag.Bool("update", false, "write the golden files")

// samples has each kind of record once or more, with values that strain its
// columns.
func samples() [][]render.Record {
	wrong, none := uint64(16383), uint64(0)
	first := &WrongElement{Rank: 1, Offset: 5461, Got: "1 (0x3f800000)", Want: "2 (0x40000000)"}
	times := Times{Min: 1.234, P50: 12.345, P99: 123.45, Max: 1234.5, Mean: 20.5}
	good := Measurement{
		Command: "reduce-scatter", OK: true, Bytes: 1 << 30, Count: 1 << 28, Type: "float32", Op: "sum", Protocol: "rendezvous-write",
		Algorithm: "ring", Ranks: 4, Iters: 20, Time: times, AlgBW: 1.5, BusBW: 1.125, Wrong: &none,
		PerRank: []RankMeasurement{{Rank: 0, Time: times, Wrong: &none}, {Rank: 1, Time: times, Wrong: &none}},
	}
	bad := good
	bad.Command, bad.OK, bad.Bytes, bad.Count, bad.Type, bad.InPlace = "all-reduce", false, 64<<20, 16<<20, "bfloat16", true
	bad.Protocol, bad.Wrong, bad.First, bad.PerRank = "eager", &wrong, first, nil
	unchecked := Measurement{Command: "all-gather", OK: true, Bytes: 8, Count: 2, Type: "float32", Protocol: "eager", Algorithm: "ring", Ranks: 2, Iters: 1}
	rank := 2
	return [][]render.Record{
		{good, bad, unchecked},
		{BenchRow{Out: bad, In: good}, BenchRow{Out: unchecked, In: unchecked}},
		{BenchSummary{Command: "bench all-reduce", OK: true, Rows: 4, Wrong: &none, BusBW: 1.25, Floor: 1}},
		{PingResult{Command: "ping", OK: true, Rank: 0, Peer: 1, Bytes: 128, Iters: 100, RTT: RoundTrip{8.5, 9.25, 101.5, 123456}}},
		{P2PResult{
			Command: "bench p2p", OK: true, Op: "WRITE", Bytes: 16 << 20, Iters: 2000, BW: 4.5, MsgRate: 1.0625,
			Time: P2PTimes{Min: 3.5, P50: 4.125, P99: 20, P999: 1000.5, Max: 98765.4},
		}},
		{
			ProviderInfo{Command: "devices", OK: true, Provider: "soft", Devices: 2},
			ProviderInfo{Command: "devices", Provider: "ibv", Reason: "libibverbs.so.1: cannot open shared object file"},
		},
		{PortInfo{
			Command: "devices", OK: true, Device: "soft:eth0", Port: 1, State: "ACTIVE", PhysState: "LINK_UP", LinkLayer: "Ethernet",
			MaxMTU: 4096, ActiveMTU: 1024, NetDev: "eth0", SpeedMbps: 25000,
		}},
		{GIDInfo{Command: "devices", OK: true, Device: "soft:lo", Port: 1, GID: verbs.GID{10: 255, 11: 255, 12: 127, 15: 1}, Type: "RoCE v2", NetDev: "lo"}},
		{LinkStatus{
			Command: "status", OK: true, Rank: 3, Node: "127.0.0.4:18600", RingState: "ready", Side: "right", PeerNode: "127.0.0.1:18600",
			Device: "soft:lo", State: "RTS", MTU: 4096, SQPSN: 0xabcdef, RQPSN: 1, QPN: 0x11, PSN: 0xabcdee, GID: "::ffff:127.0.0.4",
			PeerQPN: 0x10, PeerPSN: 1, PeerGID: "::ffff:127.0.0.1", PeerUDP: 4791,
		}},
		{CounterValue{Command: "counters", OK: true, Source: "device", Name: "local_ack_timeout_err", Value: 7, Delta: 3, PerRank: []uint64{0, 3}}},
		{ConfigEntry{"config", true, "mtu", "1024", "flag --mtu"}, ConfigEntry{"config", true, "list", "", "default"}},
		{VersionInfo{Command: "version", OK: true, Version: "v1.2.3", Revision: "abc", Go: "go1.26", OS: "linux", Arch: "arm64", Providers: []string{"soft"}}},
		{Verdict{Command: "self-check", Ranks: 4, Checks: 9, Failed: 1, Wrong: 2, Seconds: 0.5, Problems: []string{"wrong data"}}},
		{Failure{Command: "local", Error: "rank 2 was lost", ExitCode: 2, Rank: &rank}},
	}
}

func TestGoldenRecords(t *testing.T) {
	for _, format := range render.Formats() {
		t.Run(format, func(t *testing.T) {
			var out bytes.Buffer
			p := render.New(&out, render.Format(format))
			for _, records := range samples() {
				if err := p.Print(records...); err != nil {
					t.Fatal(err)
				}
			}
			golden := filepath.Join("testdata", "records."+format)
			if *update {
				if err := os.WriteFile(golden, out.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if got := out.String(); got != string(want) {
				t.Errorf("got:\n%s\nwant:\n%s", got, want)
			}
			if format != "table" {
				return
			}
			for line := range strings.Lines(out.String()) {
				if len(line) > 81 {
					t.Errorf("wider than 80 columns: %s", line)
				}
			}
		})
	}
}

// The names that scripts rely on.
func TestTheContractOfAMeasurement(t *testing.T) {
	var out bytes.Buffer
	if err := render.New(&out, render.JSON).Print(samples()[0][0]); err != nil {
		t.Fatal(err)
	}
	o := objects(t, out.String())[0]
	for _, name := range strings.Fields("command ok bytes count type op protocol algorithm ranks iters time_us algbw_GBps busbw_GBps wrong per_rank") {
		if _, found := o[name]; !found {
			t.Errorf("no %q in %s", name, out.String())
		}
	}
	for _, name := range strings.Fields("min p50 p99 max") {
		if _, found := o["time_us"].(map[string]any)[name]; !found {
			t.Errorf("no time_us.%s in %s", name, out.String())
		}
	}
}

func TestMerge(t *testing.T) {
	zero, three := uint64(0), uint64(3)
	m := Measurement{Command: "all-reduce", Bytes: 3e6, Ranks: 3}
	m.merge([]RankMeasurement{
		{Rank: 0, Time: Times{Mean: 100}, Wrong: &zero},
		{Rank: 1, Time: Times{Mean: 3000}, Wrong: &three, First: &WrongElement{Rank: 1, Offset: 9}},
		{Rank: 2, Time: Times{Mean: 200}, Wrong: &three, First: &WrongElement{Rank: 2, Offset: 1}},
	})
	if m.OK || *m.Wrong != 6 || m.First.Rank != 1 || m.AlgBW != 1 || m.Time.Mean != 3000 {
		t.Errorf("got %+v, wrong %d, first %+v", m, *m.Wrong, m.First)
	}
	err := m.verdict(0)
	if ExitCode(err) != ExitCritical || !strings.Contains(err.Error(), "rank 1, element 9") {
		t.Errorf("the verdict is %v", err)
	}
	m.Wrong = nil
	if err := m.verdict(100); ExitCode(err) != ExitWarning {
		t.Errorf("below the floor: %v", err)
	}
	if err := m.verdict(1); err != nil {
		t.Errorf("above the floor: %v", err)
	}
}

func TestFigure(t *testing.T) {
	for v, want := range map[float64]string{
		0: "0.000", 0.0014: "0.001", 9.9994: "9.999", 9.9996: "10.00", 99.99: "99.99", 99.996: "100.0", 999.94: "999.9", 999.96: "1000", 123456.7: "123457",
	} {
		if got := figure(v); got != want {
			t.Errorf("%g is %q, want %q", v, got, want)
		}
	}
}

func TestSnakeCase(t *testing.T) {
	for name, want := range map[string]string{"RTS": "rts", "CopiedAllGather": "copied_all_gather", "Sent": "sent", "QPTimeouts": "qp_timeouts"} {
		if got := snakeCase(name); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
}
