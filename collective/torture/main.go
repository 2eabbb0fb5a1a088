// Torture has rings of four ranks, each a process, work or idle while ranks are killed and
// stopped, and links are cut, flap and slow down, and looks at what comes of it: every
// survivor ends within its bound with exit code 2 and the verdict that names who is at
// fault, or goes on, where the fault passed; and nothing is left behind. It needs root and
// ip(8).
package main

import (
	"fmt"
	"time"

	"ringcli/ring/segment/cases"
)

func main() {
	rig := cases.Rig[outcome]{
		Name:  "torture",
		Cases: 1000,
		Limit: 3 * time.Minute,
		Kinds: []string{kill, stop, pause, cut, isolate, blip, flap, delay},
		Kind:  func(seed uint64, number int) string { return newPlan(seed, number).Kind },
		Run: func(seed uint64, number int, ringcli, scratch string) outcome {
			return run(newPlan(seed, number), ringcli, scratch)
		},
		Broken: func(seed uint64, number int, err error) outcome {
			return outcome{plan: newPlan(seed, number), Bad: []string{err.Error()}}
		},
		Complaints: func(c outcome) (list []string) {
			for _, b := range c.Bad {
				list = append(list, fmt.Sprintf("%s: %s", &c.plan, b))
			}
			return list
		},
		Summary: summary,
	}
	rig.Main()
}
