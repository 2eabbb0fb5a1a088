package plan

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"ringcli/configs/usage"
)

func TestTableJSON(t *testing.T) {
	const text = `{"rules":[{"op":"all-reduce","ranks":4,"max_bytes":32768,"algorithm":"inbox","protocol":"eager"},` +
		`{"op":"all-gather","algorithm":"ring","protocol":"auto"}],"eager_max":1024}`
	want := Table{EagerMax: 1024, Rules: []Rule{
		{Op: OpAllReduce, Ranks: 4, MaxBytes: 32768, Algorithm: AlgorithmInbox, Protocol: Eager},
		{Op: OpAllGather, Algorithm: AlgorithmRing},
	}}
	var got, back Table
	if err := json.Unmarshal([]byte(text), &got); err != nil || !reflect.DeepEqual(got, want) {
		t.Fatalf("%+v, %v, want %+v", got, err, want)
	}
	again, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(again, &back); err != nil || !reflect.DeepEqual(back, want) {
		t.Errorf("%s: %+v, %v, want %+v", again, back, err, want)
	}
	for _, test := range []struct{ text, want string }{
		{`{"rules":[{"op":"scan","algorithm":"ring"}]}`, `unknown operation "scan"`},
		{`{"rules":[{"op":"all-reduce","algorithm":"star"}]}`, `unknown algorithm "star"`},
		{`{"rules":[{"op":"all-reduce","algorithm":"ring","protocol":"pigeon"}]}`, `unknown protocol "pigeon"`},
	} {
		if err := json.Unmarshal([]byte(test.text), &Table{}); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v: expected an error that says %q", test.text, err, test.want)
		}
	}
}

func TestTableValidate(t *testing.T) {
	good := Rule{Op: OpAllReduce, Algorithm: AlgorithmRing}
	for _, test := range []struct {
		rule Rule
		want string
	}{
		{Rule{Op: OpReduce + 1, Algorithm: AlgorithmRing}, "rule 2: operation 6: expected all-reduce, reduce-scatter, all-gather, broadcast, reduce or barrier"},
		{Rule{Ranks: -1, Algorithm: AlgorithmRing}, "ranks -1"},
		{Rule{MaxBytes: -1, Algorithm: AlgorithmRing}, "max_bytes -1"},
		{Rule{Algorithm: 77}, "algorithm 77"},
		{Rule{}, "algorithm auto: expected one of [ring"},
		{Rule{Algorithm: AlgorithmRing, Protocol: 13}, "protocol 13"},
		{Rule{Algorithm: AlgorithmTree, Protocol: RendezvousRead}, "tree by rendezvous-read: rendezvous is for the ring"},
		{Rule{Op: OpAllGather, Algorithm: AlgorithmRing, Protocol: ReceiverInitiated}, "rule 2: receiver-initiated: the first phase of all-reduce"},
		{Rule{Algorithm: AlgorithmInbox, Protocol: Eager, Ranks: 9}, "inbox on 9 ranks: expected at most 8"},
	} {
		if err := (Table{Rules: []Rule{good, test.rule}}).Validate(); !errors.Is(err, usage.Err) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%+v: %v: expected an error of usage that says %q", test.rule, err, test.want)
		}
	}
	if err := (Table{Rules: make([]Rule, maxTableRules+1)}).Validate(); !errors.Is(err, usage.Err) {
		t.Errorf("too many rules: %v", err)
	}
	if err := (Table{Rules: []Rule{good}}).Validate(); err != nil {
		t.Error(err)
	}
}

// TestTableLookup: the first rule that fits decides, and an inbox never grows
// beyond its ranks.
func TestTableLookup(t *testing.T) {
	table := Table{Rules: []Rule{
		{Op: OpAllReduce, MaxBytes: 1024, Algorithm: AlgorithmInbox, Protocol: Eager},
		{Op: OpAllReduce, MaxBytes: 1024, Algorithm: AlgorithmRecursiveDoubling},
		{Op: OpAllReduce, Ranks: 4, Algorithm: AlgorithmRing, Protocol: RendezvousRead},
		{Op: OpAllGather, Ranks: 4, Algorithm: AlgorithmTree},
	}}
	for _, test := range []struct {
		op    Operation
		ranks int
		bytes int64
		asked Protocol
		want  int // of a rule, from 1; 0 is none
	}{
		{OpAllReduce, 2, 0, Auto, 1},
		{OpAllReduce, 8, 1024, Auto, 1},
		{OpAllReduce, 9, 1024, Auto, 2},
		{OpAllReduce, 9, 1025, Auto, 0},
		{OpAllReduce, 4, 1025, Auto, 3},
		{OpAllReduce, 4, 1 << 40, Auto, 3},
		{OpAllReduce, 4, 1 << 40, Eager, 0},
		{OpAllReduce, 4, 100, Eager, 1},
		{OpAllReduce, 4, 100, RendezvousRead, 3},
		{OpAllReduce, 4, 100, RendezvousWrite, 0},
		{OpAllGather, 4, 100, Auto, 4},
		{OpAllGather, 3, 100, Auto, 0},
		{OpReduceScatter, 4, 100, Auto, 0},
		{OpBarrier, 4, 0, Auto, 0},
	} {
		got, ok := table.lookup(test.op, Agreement{Ranks: test.ranks}, test.bytes, test.asked)
		if ok != (test.want > 0) || ok && got != table.Rules[test.want-1] {
			t.Errorf("%s of %d bytes on %d ranks, %s asked: %+v, %v, want rule %d", test.op, test.bytes, test.ranks, test.asked, got, ok, test.want)
		}
	}
}
