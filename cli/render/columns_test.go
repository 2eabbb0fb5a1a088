package render

import (
	"slices"
	"testing"
)

type tagged struct {
	Command string  `json:"command" col:"command|10"`
	OK      bool    `json:"ok" col:"verdict|verdict"`
	Rank    int     `json:"rank" col:"rank|last"`
	Addr    uint64  `json:"addr" col:"addr|left|%#x|before=size"`
	Bytes   uint64  `json:"bytes" col:"size|size"`
	Time    inner   `json:"time_us" col:"Min=min us|9; Max=max us"`
	Worst   int64   `json:"worst" col:"worst|us"`
	Gain    float64 `json:"gain" col:"gain|%.2fx"`
	List    []inner `json:"list" col:"items|len"`
	Peer    *int    `json:"peer" col:"peer"`
	Wrong   *uint64 `json:"wrong" col:"wrong|wrong"`
	Error   string  `json:"error" col:"error|bad|dash"`
	Silent  string  `json:"silent"`
	mark    string  `col:"|first"`
}

func (t tagged) Adjust(column string, c *Cell) {
	if column == "verdict" {
		c.Text = "good"
	}
}

func TestColumnsFromTags(t *testing.T) {
	wrong := uint64(2)
	r := tagged{
		Command: "x", OK: true, Rank: 3, Addr: 255, Bytes: 1 << 30, Time: inner{1, 2}, Worst: 1500, Gain: 1.5, List: make([]inner, 4), Wrong: &wrong, mark: "*",
	}
	columns := []Column{
		{"", 0, true}, {"command", 10, true}, {"verdict", 0, true}, {"addr", 0, true}, {"size", 0, false}, {"min us", 9, false}, {"max us", 0, false},
		{"worst", 0, false}, {"gain", 0, false}, {"items", 0, false}, {"peer", 0, false}, {"wrong", 0, false}, {"error", 0, true}, {"rank", 0, false},
	}
	cells := []Cell{
		{"*", Plain}, {"x", Plain}, {"good", Good}, {"0xff", Plain}, {"1G", Plain}, {"1.000", Plain}, {"2.000", Plain},
		{"1.500", Plain}, {"1.50x", Plain}, {"4", Plain}, {"-", Plain}, {"2", Bad}, {"-", Plain}, {"3", Plain},
	}
	head, row := Row(r)
	if !slices.Equal(head, columns) {
		t.Errorf("columns are %+v,\nwant %+v", head, columns)
	}
	if !slices.Equal(row, cells) {
		t.Errorf("cells are %+v,\nwant %+v", row, cells)
	}
	r.OK = false
	if _, got := Row(r); got[2].Mood != Bad || got[12].Mood != Bad {
		t.Errorf("the verdict is %+v, the error %+v", got[2], got[12])
	}
}
