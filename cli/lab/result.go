package lab

import (
	"fmt"
	"strings"

	"ringcli/cli/render"
)

// LabStep is a step of a lab, with what the live objects of both ends said after it.
type LabStep struct {
	Command string `json:"command"`
	OK      bool   `json:"ok"`
	Lab     string `json:"lab"`             // a or c
	Rank    *int   `json:"rank,omitempty"`  // lab c: which end this is
	Step    int    `json:"step" col:"step"` // from 1
	Name    string `json:"name" col:"what|20"`
	Call    string `json:"call"` // the libibverbs functions that it stands for
	// Values are this end's, in lab a queue pair 0's, under libibverbs' names.
	Values map[string]string `json:"values,omitempty" col:"live values"`
	// Peer are the other end's, in lab a queue pair 1's.
	Peer    map[string]string `json:"peer,omitempty"`
	Explain string            `json:"explain,omitempty"` // with --explain
	Error   string            `json:"error,omitempty"`
	Meaning string            `json:"meaning,omitempty"` // of the error, with --explain

	own, peer Values // in order
	mark      string `col:"|4|before=what|verdict"`
}

// Adjust implements render.Adjuster.
func (l LabStep) Adjust(column string, cell *render.Cell) {
	if column != "live values" {
		return
	}
	cell.Text = valuesText(l.own)
	if len(l.peer) > 0 {
		other := "peer"
		if l.Rank == nil {
			other = "QP1"
		}
		cell.Text = strings.TrimSpace(cell.Text + " | " + other + ": " + valuesText(l.peer))
	}
	if !l.OK {
		cell.Mood = render.Bad
		cell.Text = strings.TrimSuffix(l.Error+"; "+cell.Text, "; ")
	}
}

func valuesText(values Values) string {
	list := make([]string, len(values))
	for i, v := range values {
		list[i] = v.Name + "=" + v.Text
	}
	return strings.Join(list, " ")
}

// LabResult is how a lab ended.
type LabResult struct {
	Command string  `json:"command"`
	OK      bool    `json:"ok" col:"result|verdict"`
	Lab     string  `json:"lab" col:"lab|first"`
	Rank    *int    `json:"rank,omitempty"`
	Device  string  `json:"device" col:"device|last"`
	Steps   int     `json:"steps" col:"steps"` // that went well
	Seconds float64 `json:"seconds" col:"seconds"`
}

// Adjust implements render.Adjuster.
func (l LabResult) Adjust(column string, cell *render.Cell) {
	switch {
	case column == "lab" && l.Rank != nil:
		cell.Text += fmt.Sprintf(", rank %d", *l.Rank)
	case column == "result" && l.OK:
		cell.Text = "ok: all data verified"
	case column == "result":
		cell.Text = "FAILED"
	}
}
