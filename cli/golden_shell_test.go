package cli

import (
	"ringcli/cli/about"
	"ringcli/cli/lines"
	"ringcli/cli/render"
	"ringcli/cli/shell"
)

// shellExamples are of what only a shell has.
func shellExamples() []example {
	return []example{
		printing("alias", []render.Record{
			shell.Alias{Command: "alias", OK: true, Name: "check4", Text: "all-reduce --size 4M --check; expect wrong == 0; counters --all"},
			shell.Alias{Command: "alias", OK: true, Name: "s", Text: "status"},
		}),
		printing("history", []render.Record{
			shell.HistoryLine{Command: "history", OK: true, Number: 9, Line: "open --index 0 --list " + exampleHost + "," + exampleHost + ":18601"},
			shell.HistoryLine{Command: "history", OK: true, Number: 10000, Line: "rtr --side left --psn 5"},
		}),
		printing("jobs", []render.Record{
			shell.JobInfo{Command: "jobs", OK: true, Job: 1, State: "runs", Line: "all-reduce --size 64M --duration 24h --check --protocol rendezvous-write --floor 1.5", Seconds: 86399.95},
			shell.JobInfo{Command: "jobs", OK: true, Job: 12, State: "waits", Line: "bench all-gather", Seconds: 0.04},
		}),
		printing("job", []render.Record{
			lines.JobEvent{Command: "job", OK: true, Job: 12, State: "done", Line: "all-reduce --size 1G --check", Seconds: 3.25},
			lines.JobEvent{Command: "job", Job: 1, State: "stopped", Line: "all-reduce --duration 24h", Seconds: 3600.5, Why: "interrupted after 1526000 iterations; the ring is usable"},
		}),
		printing("show", []render.Record{
			about.ConfigEntry{Command: "show", OK: true, Name: "protocol", Value: "eager", Origin: "set"},
		}),
	}
}
