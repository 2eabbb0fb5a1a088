package cli

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"ringcli/cli/about"
	"ringcli/cli/backends"
	"ringcli/cli/bench"
	"ringcli/cli/bench/corruption"
	"ringcli/cli/bench/p2p"
	"ringcli/cli/bench/windows"
	"ringcli/cli/devices"
	"ringcli/cli/doctor"
	"ringcli/cli/failure"
	"ringcli/cli/hand"
	"ringcli/cli/local"
	"ringcli/cli/path"
	"ringcli/cli/render"
	"ringcli/cli/report"
	"ringcli/cli/session"
	"ringcli/cli/tables"
	"ringcli/cli/timing"
	"ringcli/collective"
	"ringcli/collective/lateness"
	"ringcli/collective/model"
	"ringcli/configs/codes"
	"ringcli/ring"
	"ringcli/ring/bootstrap"
	"ringcli/verbs"
)

// examples has every command that prints records, once or more. What they print
// is kept as golden files, and the JSON Schema is made from the records in them.
func examples() []example {
	none, wrong := uint64(0), uint64(16383)
	possible, share := bench.Possible{Rate: 12.25, By: model.Port, Why: "rank 3: 100 Gb/s"}, 10.2
	rank := 2
	good, bad := exampleMeasurement("all-reduce"), exampleMeasurement("all-reduce")
	bad.OK, bad.Bytes, bad.Count, bad.Type, bad.InPlace = false, 64<<20, 32<<20, "bfloat16", true
	bad.Protocol, bad.Wrong, bad.PerRank, bad.Spread = collective.Eager, &wrong, nil, nil
	bad.First = &corruption.WrongElement{Rank: 1, Offset: 5461, Got: "1 (0x3f80)", Want: "2 (0x4000)"}
	bit := 17
	bad.Corruption = &corruption.Corruption{
		Found:   []corruption.WrongElements{{Rank: 1, Wrong: 3, Runs: [][2]int{{5461, 5462}, {5464, 5464}}, First: *bad.First}},
		Entered: []corruption.Entry{{From: 0, To: 1, Confidence: bootstrap.Certain, Phase: "all-gather", Segment: 7, Elements: [2]int{5376, 5503}}},
		Pattern: corruption.Pattern{Words: 3, Of: 5, Kind: "bit-set", Fits: 3, Bit: &bit, Mask: 1 << 17, Checks: 2, Text: "3 of 3 wrong words: bit 17 set"},
	}
	gathered := exampleMeasurement("all-gather")
	gathered.Op, gathered.Bytes, gathered.Count, gathered.Iters, gathered.Wrong, gathered.PerRank = "", 8, 2, 1, nil, nil
	gathered.Time, gathered.AlgBW, gathered.BusBW = timing.Times{}, 0, 0
	barrier := bench.BarrierTime{
		Command: "barrier", OK: true, Protocol: collective.Direct, Algorithm: collective.AlgorithmInbox, Ranks: 4, Iters: 100000, Time: good.Time, Spread: good.Spread, Auto: true, Fastest: true,
		PerRank: []bench.BarrierRank{{Time: good.Time}, {Rank: 1, Time: good.Time}}, CPUs: []int{0, 1, 2, 3},
	}
	tree := barrier
	tree.Protocol, tree.Algorithm, tree.Auto, tree.Fastest, tree.PerRank, tree.CPUs = collective.Eager, collective.AlgorithmRecursiveDoubling, false, false, nil, nil
	rooted := func(op string) bench.Measurement {
		m := exampleMeasurement(op)
		m.Root = &rank
		return m
	}
	benched := func(op string, rows ...render.Record) example {
		return example{"bench " + op, func(s *session.Session) error {
			if err := s.Out.Print(rows...); err != nil {
				return err
			}
			return s.Out.Print(bench.BenchSummary{Command: "bench " + op, OK: true, Rows: 2 * len(rows), Wrong: &none, BusBW: 1.25, Floor: 1, Possible: possible, OfPossible: &share, Auto: []bench.Stretch{
				{Variant: bench.Variant{Algorithm: collective.AlgorithmInbox, Protocol: collective.Direct}, From: 8, To: 32 << 10},
				{Variant: bench.Variant{Algorithm: collective.AlgorithmRing, Protocol: collective.RendezvousWrite}, From: 64 << 10, To: 1 << 30},
			}})
		}}
	}
	return slices.Concat(benchExamples(), tuneExamples(), linksExamples(), modelExamples(), pingpongExamples(), transportExamples(), labExamples(), stepExamples(), handExamples(), shellExamples(), traceExamples(), []example{
		printing("all-reduce", []render.Record{good, bad}),
		{"all-reduce per-rank", func(s *session.Session) error { return bench.PrintRanks(s, good) }},
		printing("reduce-scatter", []render.Record{exampleMeasurement("reduce-scatter")}),
		printing("all-gather", []render.Record{gathered}),
		printing("broadcast", []render.Record{rooted("broadcast")}),
		printing("reduce", []render.Record{rooted("reduce")}),
		printing("barrier", []render.Record{barrier}),
		printing("bench barrier", []render.Record{barrier, tree}),
		benched("all-reduce", bench.BenchRow{Out: bad, In: good}, bench.BenchRow{Out: good, In: good}),
		benched("reduce-scatter", bench.BenchRow{Out: exampleMeasurement("reduce-scatter"), In: exampleMeasurement("reduce-scatter")}),
		benched("all-gather", bench.BenchRow{Out: gathered, In: gathered}),
		benched("broadcast", bench.BenchRow{Out: rooted("broadcast"), In: rooted("broadcast")}),
		benched("reduce", bench.BenchRow{Out: rooted("reduce"), In: rooted("reduce")}),
		{"window", func(s *session.Session) error {
			late := windows.Stragglers{At: 3599.125, Finding: lateness.Finding{
				Kind: lateness.Late, Rank: 249, Took: 1e9, By: 178e6, Longest: 30e6, Times: 6, NoCPU: 1e6, Why: lateness.Entered,
			}}
			edge := windows.Stragglers{At: 3599.125, Finding: lateness.Finding{Kind: lateness.SlowEdge, Rank: 1, To: new(2), Took: 1e9, By: 2e6, Longest: 2.5e6, Times: 1200}}
			name := func(rank int) string { return fmt.Sprintf("rank %d (%s)", rank, exampleHost) }
			late.Text, edge.Text = late.Finding.Text(name), edge.Finding.Text(name)
			sum := &windows.Summary{Count: 3600, LeastBW: 0.0625, LeastAt: 3599.125}
			m := exampleMeasurement("all-reduce")
			m.Windows, m.Late, m.PerRank[0].Waits = sum, []windows.Stragglers{late, edge}, &lateness.Record{Took: 1e9, Waited: 1e8, To: 1, Flights: 3, InFlight: 3e6}
			return errors.Join(s.Out.Print(windows.Window{Command: "window", OK: true, Operation: "all-reduce", Bytes: 1 << 30, At: 3598, Seconds: 1.125, Iters: 100000, BusBW: 1.125, LeastBW: 0.5},
				windows.Window{Command: "window", OK: true, Operation: "all-reduce", Bytes: 1 << 30, At: 3599.125, Seconds: 1, Iters: 6, BusBW: 0.0625, LeastBW: 0.03125, Late: m.Late}),
				s.Out.Print(m), windows.Notes(s.Out, sum, m.Late), windows.Notes(s.Out, nil, m.Late))
		}},
		printing("bench p2p", []render.Record{
			p2p.P2PResult{
				Command: "bench p2p", OK: true, Op: "WRITE", Bytes: 16 << 20, Iters: 2000, BW: 48.5, MsgRate: 1.0625,
				Time: p2p.P2PTimes{Min: 3.5, P50: 4.125, P99: 20, P999: 1000.5, Max: 98765.4},
			},
			p2p.P2PResult{Command: "bench p2p", OK: true, Op: "SEND", Bytes: 64, Iters: 1000000, BW: 0.0625, MsgRate: 123.5},
		}),
		{"self-check", func(s *session.Session) error {
			v := local.Verdict{Command: "self-check", Ranks: 4, Over: []string{"soft:lo"}, Types: []string{"float32", "int32"}, Checks: 9, Failed: 1, Wrong: 16383, Seconds: 0.5,
				Sent:     local.Sent{EagerWrites: 360, Writes: 240, Reads: 120, RTS: 360, CTS: 240, FIN: 120},
				Problems: []string{"wrong data: all-reduce, eager: rank 1, element 5461: got 1 (0x3f80), want 2 (0x4000)"}}
			if err := s.Out.Print(v); err != nil {
				return err
			}
			v.OK, v.Over, v.Failed, v.Wrong, v.Problems = true, []string{"soft:lo", "shm:0"}, 0, 0, nil
			return s.Out.Print(v)
		}},
		printing("ping", []render.Record{
			hand.PingResult{Command: "ping", OK: true, Rank: 0, Peer: 1, Bytes: 128, Iters: 100, RTT: hand.RoundTrip{Min: 8.5, P50: 9.25, P99: 101.5, Max: 123456}},
			hand.PingResult{Command: "ping", OK: true, Rank: 249, Peer: 0, Bytes: 128, Iters: 16777216, RTT: hand.RoundTrip{Min: 0.5, P50: 1234567.5, P99: 2345678.5, Max: 30000000}},
		}),
		printing("status", []render.Record{
			hand.LinkStatus{
				DeviceWhy: "soft was asked for at rank 0 (10.1.2.3)",
				Command:   "status", OK: true, Rank: 3, Node: "127.0.0.4:18600", RingState: "ready", Side: "right", PeerNode: "127.0.0.1:18600",
				Device: "soft:lo", State: "RTS", MTU: 4096, SQPSN: 0xabcdef, RQPSN: 1, QPN: 0x11, PSN: 0xabcdee, GID: "::ffff:127.0.0.4",
				PeerQPN: 0x10, PeerPSN: 1, PeerGID: "::ffff:127.0.0.1", PeerUDP: 4791,
			},
			hand.LinkStatus{
				DeviceWhy: "soft was asked for at rank 0 (10.1.2.3)",
				Command:   "status", Rank: 249, Node: exampleHost + ":18600", RingState: "initialised", Side: "left", Peer: 248, PeerNode: exampleHost + ":65535",
				Device: "soft:enp65s0f0np0", State: "ERR", MTU: 1024, SQPSN: 0xffffff, RQPSN: 0xffffff, QPN: 0xffffff, PSN: 1, GID: exampleGID.String(),
				PeerQPN: 0xfffffe, PeerPSN: 1, PeerGID: exampleGID.String(), PeerUDP: 4791,
			},
		}),
		printing("status table", []render.Record{
			tables.TableStatus{
				Command: "status", OK: true, Table: "/home/operator/.config/ringcli/table.json", Origin: "default", Ranks: 249, Devices: "ibv+shm+soft", Rules: 12,
				Why: "measured on 249 ranks of ibv+shm+soft, 2026-11-21 14:00",
			},
			tables.TableStatus{Command: "status", OK: true, Origin: "flag --table", Ranks: 4, Devices: "soft", Why: "/tmp/cluster.json has none for 4 ranks of soft"},
			tables.TableStatus{Command: "status", OK: true, Origin: "default", Ranks: 4, Devices: "shm", Why: "`tune` measures a table for 4 ranks of shm"},
		}),
		printing("counters", []render.Record{
			hand.CounterValue{Command: "counters", OK: true, Source: "device", Provider: "ibv", Name: "local_ack_timeout_err", Value: 7, Delta: 3, PerRank: []uint64{0, 3, 0, 0}},
			hand.CounterValue{
				Command: "counters", OK: true, Source: "collective", Name: "bytes_sent", Value: 18446744073709551615, Delta: 4294967296,
				PerRank: []uint64{1073741824, 1073741824, 1073741824, 1073741824},
			},
		}),
		printing("devices", []render.Record{
			devices.ProviderInfo{Command: "devices", OK: true, Provider: "soft", Devices: 2},
			devices.ProviderInfo{Command: "devices", Provider: "ibv", Reason: "libibverbs.so.1: cannot open shared object file: install libibverbs1 and the provider of the NIC"},
		}, []render.Record{
			devices.PortInfo{
				Command: "devices", OK: true, Device: "soft:enp65s0f0np0", Port: 1, State: "ACTIVE", PhysState: "LinkUp", LinkLayer: "Ethernet",
				MaxMTU: 4096, ActiveMTU: 1024, NetDev: "enp65s0f0np0", SpeedMbps: 400000, GIDs: 12,
			},
			devices.PortInfo{
				Command: "devices", Device: "soft:ibp65s0", Port: 2, State: "INIT", PhysState: "Polling", LinkLayer: "InfiniBand",
				MaxMTU: 4096, ActiveMTU: 4096, LID: 49151, NetDev: "ibp65s0", GIDs: 1,
			},
		}, []render.Record{
			devices.GIDInfo{Command: "devices", OK: true, Device: "soft:lo", Port: 1, GID: verbs.GID{10: 255, 11: 255, 12: 127, 15: 1}, Type: "RoCE v2", NetDev: "lo"},
			devices.GIDInfo{Command: "devices", OK: true, Device: "soft:enp65s0f0np0", Port: 1, Index: 255, GID: exampleGID, Type: "RoCE v2", NetDev: "enp65s0f0np0"},
		}),
		printing("backends", []render.Record{
			backends.Info{Command: "backends", Backend: "nccl", Priority: 100, Memory: "cuda", Library: "libnccl.so.2", Reason: "not available: libnccl.so.2 cannot be loaded (libnccl.so.2: cannot open shared object file: No such file or directory): to use NCCL install it"},
			backends.Info{Command: "backends", OK: true, Backend: "rccl", Priority: 90, Memory: "hip", Library: "librccl.so.1", Path: "/opt/rocm-6.2.0/lib/librccl.so.1.0", Version: "2.20.5"},
			backends.Info{Command: "backends", OK: true, Backend: "ring", Priority: 10, Memory: "host", Chosen: true},
		}, []render.Record{
			backends.Setting{Command: "backends", OK: true, Variable: "NCCL_DEBUG", Value: "WARN", Origin: "environment", Reads: "both libraries"},
			backends.Setting{Command: "backends", OK: true, Variable: "NCCL_MAX_NCHANNELS", Value: "4", Origin: "ringcli", Reads: "both libraries"},
		}),
		{"doctor", func(s *session.Session) error { return looked(doctor.Print(s, examplePreflight(nil), false)) }},
		{"doctor ranks", func(s *session.Session) error {
			return looked(doctor.Print(s, examplePreflight([]int{0, 1, 2, 249}), true))
		}},
		{"path", func(s *session.Session) error { return looked(path.Print(s, examplePaths(), false)) }},
		printing("report", []render.Record{
			report.Packed{Command: "report", OK: true, File: "ringcli-report-gpu-node-0123-20261123T045000Z.tar.gz", Bytes: 123456789, Ranks: 250, Files: 3000, LeftOut: 12},
		}),
		printing("devices gpus", []render.Record{
			devices.GPURuntime{Command: "devices", OK: true, Runtime: "cuda", GPUs: 2, Library: "libcuda.so.1", Version: "12.4"},
			devices.GPURuntime{Command: "devices", Runtime: "hip", Reason: "hip is not available: libamdhip64.so.7 cannot be loaded: ROCm brings it"},
		}, []render.Record{
			devices.GPUInfo{
				Command: "devices", OK: true, GPU: "cuda:0", Name: "NVIDIA H100 80GB HBM3", Memory: 80 << 30, PCI: "0000:1a:00.0",
				UUID: "00112233-4455-6677-8899-aabbccddeeff", Arch: "sm_90",
			},
			devices.GPUInfo{Command: "devices", OK: true, GPU: "cuda:1", Name: "NVIDIA H100 80GB HBM3", Memory: 80 << 30, PCI: "0000:3a:00.0"},
		}, []render.Record{
			devices.GPULinks{
				Command: "devices", OK: true, GPU: "cuda:0", Peers: []devices.GPUPeer{{GPU: "cuda:0", Access: true}, {GPU: "cuda:1", Access: true, Link: "nvlink"}},
				Adapters: []devices.GPUAdapter{{Device: "ibv:mlx5_0", Distance: "PIX"}, {Device: "ibv:mlx5_1", Distance: "SYS"}},
			},
			devices.GPULinks{
				Command: "devices", GPU: "cuda:1", Peers: []devices.GPUPeer{{GPU: "cuda:0"}, {GPU: "cuda:1", Access: true}},
				Adapters: []devices.GPUAdapter{{Device: "ibv:mlx5_0", Distance: "NODE"}, {Device: "ibv:mlx5_1", Distance: "PXB"}},
			},
		}),
		{"query", func(s *session.Session) error { return devices.Print(s, exampleReport(), false) }},
		{"query verbose", func(s *session.Session) error { return devices.Print(s, exampleReport(), true) }},
		printing("config", []render.Record{
			about.ConfigEntry{Command: "config", OK: true, Name: "mtu", Value: "1024", Origin: "flag --mtu"},
			about.ConfigEntry{Command: "config", OK: true, Name: "traffic-class", Value: "96", Origin: "env RINGCLI_TRAFFIC_CLASS"},
			about.ConfigEntry{Command: "config", OK: true, Name: "list", Value: exampleHost + "," + exampleHost + ":18601," + exampleHost + ":18602", Origin: "file /etc/ringcli/config.yaml"},
			about.ConfigEntry{Command: "config", OK: true, Name: "device", Value: "", Origin: "default"},
		}),
		printing("examples", []render.Record{
			about.ExampleInfo{Command: "examples", OK: true, Name: "slurm-prolog", File: "slurm-prolog.sh", What: "Slurm's Prolog: keeps a job off a node that is not fit for it"},
			about.ExampleInfo{Command: "examples", OK: true, Name: "soak", File: "soak.ring", What: "Keeps a ring busy, and checks what comes of it", Text: "set check=true\n"},
		}),
		printing("version", []render.Record{
			about.VersionInfo{
				Command: "version", OK: true, Version: "v1.2.3-45-g0123456-dirty", Revision: "0123456789abcdef0123456789abcdef01234567",
				Go: "go1.26.8", OS: "linux", Arch: "arm64", Providers: []string{"soft"},
			},
		}),
		printing("failure", []render.Record{
			failure.Failure{Command: "local", Code: codes.Lost, Error: "rank 2 was lost: 127.9.9.3:18600: connection reset by peer", ExitCode: 2, Rank: &rank},
			failure.Failure{Command: "connect", Code: codes.Interrupted, Error: "interrupted", ExitCode: 130},
			failure.Failure{Command: "all-reduce", Code: codes.Edge, Error: "what rank 1 sends does not reach rank 2", ExitCode: 2, Verdict: &ring.Verdict{
				Kind: bootstrap.KindEdge, Rank: 1, Host: "b", PID: 4711, Edge: bootstrap.Direction{From: 1, To: 2, Both: true}, Confidence: bootstrap.Suspect,
				Doing: ring.Doing{Operation: 7, Words: "all-reduce", Phase: "all-gather", Segment: 3, Awaited: "segment 3 from rank 1"},
				Since: 1500 * time.Millisecond, By: 2, Text: "what rank 1 sends does not reach rank 2",
			}},
			failure.Failure{Command: "all-reduce", Code: codes.Lost, Error: "rank 2 was lost", ExitCode: 2, Retry: new(598.5)},
			failure.Failure{
				Command: "all-reduce", Code: codes.Calls, Error: "operation 7: rank 2 calls a barrier; ranks 0, 1 call an all-reduce", ExitCode: 3,
				Calls: []ring.Called{{Call: "a barrier", Ranks: []int{2}}, {Call: "an all-reduce", Ranks: []int{0, 1}}, {Ranks: []int{3}, State: "not known, no answer came in time"}},
			},
		}),
	})
}

// looked lets pass the verdict that a preflight ends in.
func looked(err error) error {
	if code, _ := codes.Of(err); code == codes.Preflight || code == codes.Path {
		return nil
	}
	return err
}

// examplePreflight has each verdict.
func examplePreflight(ranks []int) []doctor.Preflight {
	return []doctor.Preflight{
		{Command: "doctor", OK: true, Ranks: ranks, Check: "port", Of: "ibv:mlx5_0/1", Verdict: doctor.Pass, Value: "ACTIVE, Ethernet, 400 Gbit/s"},
		{Command: "doctor", Ranks: ranks, Check: "pcie", Of: "ibv:mlx5_0", Verdict: doctor.Warn, Code: codes.Slow, Value: "8 GT/s x8, 63 Gbit/s",
			Expected: "32 GT/s x16, which card and slot can do", Fix: "lspci -vv -s 0000:3b:00.0 | grep Lnk  # seat the card anew; another slot; BIOS"},
		{Command: "doctor", Ranks: ranks, Check: "memlock", Verdict: doctor.Fail, Code: codes.Memlock, Value: "64 KiB",
			Expected: "unlimited: the slots of a rank take 8200 KiB, and vectors come on top",
			Fix:      "ulimit -l unlimited  # limits.conf: memlock; systemd: LimitMEMLOCK=infinity; container: --ulimit memlock=-1"},
		{Command: "doctor", OK: true, Ranks: ranks, Check: "ephemeral-ports", Verdict: doctor.Skip, Value: "proc/sys/net/ipv4/ip_local_port_range cannot be read"},
	}
}

// examplePaths has each check.
func examplePaths() []path.PathCheck {
	bleached := 26 << 2
	row := func(p path.PathCheck) path.PathCheck {
		p.Command, p.From, p.To, p.Device = "path", 0, 1, "ibv:mlx5_0"
		return p
	}
	return []path.PathCheck{
		row(path.PathCheck{OK: true, Check: path.Checks[0], Verdict: doctor.Pass, Value: "GID 3 (RoCE v2) 10.0.0.1 of eth0 to 10.0.1.2: by eth0 to the router 10.0.0.254"}),
		row(path.PathCheck{Check: path.Checks[1], Verdict: doctor.Fail, Value: "1500 bytes pass, of the 9000 of eth0; the queue pair's MTU 4096 needs 4160; nobody on the way says so",
			Expected: "4160 or more", Fix: "tracepath -n 10.0.1.2  # finds the link; or connect with --mtu 1024", Bytes: 1500, Needs: 4160}),
		row(path.PathCheck{Check: path.Checks[2], Verdict: doctor.Warn, Value: "DSCP 0 ECT(0): as sent; DSCP 26 ECT(0) arrives as DSCP 26 not ECT; DSCP 48 not ECT: none came",
			Expected: "what was sent", Fix: "look for a tunnel, a router or a filter that clears ECN: DCQCN does without its marks",
			Marks: []path.Marked{{Sent: 26<<2 | 2, Arrived: &bleached}, {Sent: 48 << 2}}}),
		row(path.PathCheck{Check: path.Checks[3], Verdict: doctor.Fail, Value: "source port 49153: 30 of 30 lost; us there and back: 49152 9.250 (+0.000), 49153 no answer (+0.000)",
			Expected: "all ports alike", Fix: "one path of several (ECMP, LAG) is broken, lossy or longer",
			Ports: []path.SourcePort{{Port: 49152, Sent: 30, Arrived: 30, RTT: 9.25}, {Port: 49153, Sent: 30}}}),
		row(path.PathCheck{OK: true, Check: path.Checks[4], Verdict: doctor.Pass, Value: "512 of 512 packets of the device arrive (0.0 % lost)", Sent: 512, Arrived: 512}),
	}
}

// exampleReport is a device, as far from zero as one gets.
func exampleReport() devices.DeviceReport {
	return devices.DeviceReport{
		Command: "query", OK: true, Device: "soft:enp65s0f0np0", Provider: "soft", HCA: "enp65s0f0np0", Transport: "InfiniBand (0)",
		Firmware: "22.31.1014", NodeGUID: "0011:22ff:fe33:4455", SysImageGUID: "0011:22ff:fe33:4455",
		VendorID: 0x15b3, PartID: 4129, HWVersion: 0xa0, PhysPorts: 1, MaxMRSize: 1<<64 - 1, PageSizeCap: 0xfffffffffffff000,
		MaxQP: 131072, MaxQPWR: 32768, CapFlags: 0x25321c36, CapNames: devices.NamesOf(devices.Capabilities, 0x25321c36), MaxSGE: 30, MaxSGERD: 30,
		MaxCQ: 16777216, MaxCQE: 4194303, MaxMR: 16777216, MaxPD: 8388608, MaxQPRDAtomic: 16, MaxResRDAtomic: 2097152, MaxQPInitRDAtomic: 16,
		Atomics: "ATOMIC_HCA (1)", MaxMW: 16777216, MaxMcastGrp: 2097152, MaxMcastQPAttach: 240, MaxTotalMcastQPAttach: 503316480,
		MaxAH: 2147483647, MaxSRQ: 8388608, MaxSRQWR: 32767, MaxSRQSGE: 31, MaxPKeys: 128, LocalCAAckDelay: 16, MaxInline: 220,
		Ports: []devices.PortReport{devices.ReportPort(1, verbs.PortAttr{
			State: verbs.PortActive, PhysState: "LinkUp", MaxMTU: verbs.MTU4096, ActiveMTU: verbs.MTU1024, GIDTableSz: 256, PKeyTableSz: 1,
			MaxMsgSz: 1 << 30, CapFlags: 0x04010000, LinkLayer: verbs.LinkEthernet, ActiveWidth: 2, ActiveSpeed: 128,
			NetDev: "enp65s0f0np0", SpeedMbps: 400000,
		}, []devices.GIDReport{
			{Index: 0, GID: verbs.GID{0: 0xfe, 1: 0x80, 15: 1}, Type: "RoCE v1", NetDev: "enp65s0f0np0"},
			{Index: 3, GID: exampleGID, Type: "RoCE v2", NetDev: "enp65s0f0np0"},
		})},
	}
}

// exampleHost is a name as clusters have them.
const exampleHost = "gpu-node-0123.rack-17.cluster.example.org"

// exampleGID is as wide as a GID gets.
var exampleGID = verbs.GID(netip.MustParseAddr("2001:db8:85a3:11d3:1319:8a2e:1370:7348").As16())

func exampleMeasurement(command string) bench.Measurement {
	none, spread, share := uint64(0), 12.3, 7.9
	times := timing.Times{Min: 1.234, P50: 123456.5, P99: 1234567.25, Max: 2345678.5, Mean: 123457}
	m := bench.Measurement{
		Command: command, OK: true, Bytes: 1 << 30, Count: 1 << 28, Type: "float32", Op: "sum", Protocol: collective.RendezvousWrite,
		Algorithm: collective.AlgorithmRing, Ranks: 4, Iters: 20, Time: times, Spread: &spread, AlgBW: 1.5, BusBW: 1.125, Wrong: &none,
		Possible: bench.Possible{Rate: 14.25, By: model.PCIe, Why: "rank 1: 16 GT/s x8, and 16 GT/s x16 is what device and slot can do"}, OfPossible: &share,
	}
	for rank := range 2 {
		m.PerRank = append(m.PerRank, bench.RankMeasurement{Rank: rank, Time: times, Wrong: &none})
	}
	return m
}
