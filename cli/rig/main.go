// Rig injects one fault of a known kind into a ring of six ranks, each a process in a
// network namespace of its own, and checks the verdict: who is named, over which edge and in
// which direction, the exit codes, the first line of text, and that JSON, JUnit, metrics and
// host files say the same. A healthy ring must accuse nobody. It needs root, ip(8), tc(8)
// and iptables(8). Only engineers and CI run it.
//
// Rates are those of tbf and htb, loss is that of iptables, a lack of CPU time that of a
// control group: not every kernel has netem.
package main

import (
	"fmt"
	"strings"
	"time"

	"ringcli/ring/segment/cases"
)

func main() {
	rig := cases.Rig[outcome]{
		Name:  "rig",
		Cases: 20 * len(cycle()),
		Limit: 4 * time.Minute,
		Kinds: kindNames(),
		Kind:  func(seed uint64, number int) string { return newPlan(seed, number).Kind },
		Run: func(seed uint64, number int, ringcli, scratch string) outcome {
			return run(newPlan(seed, number), ringcli, scratch)
		},
		Broken: func(seed uint64, number int, err error) outcome {
			return outcome{plan: newPlan(seed, number), Grade: broken, Said: []string{err.Error()}}
		},
		Complaints: func(o outcome) (list []string) {
			if o.Grade != right {
				list = append(list, fmt.Sprintf("%s: %s: %s", &o.plan, o.Grade, strings.Join(o.Said, " | ")))
			}
			for _, b := range o.Bad {
				list = append(list, fmt.Sprintf("%s: %s", &o.plan, b))
			}
			return list
		},
		Summary: summary,
	}
	rig.Main()
}
