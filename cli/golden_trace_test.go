package cli

import (
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/cli/tracing"
	"ringcli/trace/align"
	"ringcli/trace/timeline"
)

// traceExamples are of `trace`.
func traceExamples() []example {
	clock := align.ClockFit{Rank: 249, Offset: -50123456789, At: 1700000000123456789, DriftPPM: -49.987, Bound: 123456, Samples: 1000}
	return []example{
		printing("trace", []render.Record{
			tracing.TraceLevel{Command: "trace", OK: true, Subsystem: "collective", Level: "warn", Recorder: "on"},
			tracing.TraceLevel{Command: "trace", OK: true, Subsystem: "wire", Level: "debug", Recorder: "on"},
		}),
		printing("trace dump", []render.Record{
			tracing.TraceFile{Command: "trace", OK: true, Rank: 249, File: "/var/tmp/ringcli/all-reduce-of-this-afternoon.rank249.json", Events: 65536, Lost: 1<<64 - 1},
		}),
		{"trace merge", func(s *session.Session) error {
			m := tracing.MergeResult{Command: "trace", File: "/var/tmp/ringcli/merged.json", Merged: align.Merged{
				Missing: []int{2}, Clocks: []align.ClockFit{{Bound: -1}, clock}, Segments: 123456, Violations: 1, Worst: 1500,
				Warnings: []string{"rank 2 has no recording: its neighbours' segments are not matched"},
			}}
			if s.Out.Format() != render.JSON {
				if err := s.Out.Print(tracing.ClockRow{Command: "trace", OK: true, ClockFit: m.Clocks[0]}, tracing.ClockRow{Command: "trace", OK: true, ClockFit: clock}); err != nil {
					return err
				}
			}
			return s.Out.Print(m)
		}},
		printing("trace show", []render.Record{
			tracing.Timeline{Command: "trace", OK: true, Operation: timeline.Operation{
				Op: "reduce-scatter", Protocol: "rendezvous-write", Seq: 1 << 40, Bytes: 1 << 34, Start: 1700000000123456789, Duration: 12345678901, Slowest: 249,
				Ranks: []timeline.Rank{{
					Rank: 249, Start: 1700000000123456789, End: 1700000012469135690, Reducing: 1234567890, Waiting: 234567890, WaitingShare: 0.19, Segments: 65536,
					Steps: []timeline.StepSpan{{Phase: "reduce-scatter", Step: 3, Bytes: 1 << 32, Interval: timeline.Interval{Start: 1700000000123456789, End: 1700000000223456789}}},
				}},
				Steps: []timeline.StepTimes{{Phase: "reduce-scatter", Step: 3, Durations: []int64{100000000}, Slowest: -1}},
			}},
		}),
	}
}
