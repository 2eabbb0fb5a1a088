package verbs

import (
	"errors"
	"net/netip"
	"reflect"
	"strings"
	"testing"
	"time"
)

func TestParseFaults(t *testing.T) {
	for text, want := range map[string]Faults{
		"off": {},
		"soft: loss 1%, corrupt 0.1% in, delay 2ms to 2, seed 7": {Seed: 7, List: []Fault{
			{Loss: 0.01, Out: true, On: -1, Peer: -1}, {Corrupt: 0.001, In: true, On: -1, Peer: -1}, {Delay: 2 * time.Millisecond, Out: true, On: -1, Peer: 2},
		}},
		" soft : down 2s every 10s,down at 0s for 1s from 0 on 3 , duplicate 0.5 in out": {List: []Fault{
			{Down: Outage{For: 2 * time.Second, Every: 10 * time.Second}, In: true, Out: true, On: -1, Peer: -1},
			{Down: Outage{For: time.Second}, In: true, On: 3, Peer: 0}, {Duplicate: 0.5, In: true, Out: true, On: -1, Peer: -1},
		}},
		"soft: reorder 100%, jitter 1ms, late 1s": {List: []Fault{
			{Reorder: 1, Out: true, On: -1, Peer: -1}, {Jitter: time.Millisecond, Out: true, On: -1, Peer: -1}, {Late: time.Second, Out: true, On: -1, Peer: -1},
		}},
	} {
		if got, err := ParseFaults(text); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: %+v, %v: expected %+v", text, got, err, want)
		}
	}
	for text, want := range map[string]string{
		"":                             "expected off or",
		"loss 1%":                      "expected off or",
		"shm: loss 1%":                 "only soft devices",
		"soft:":                        "no fault between two commas",
		"soft: seed 1":                 "has no fault",
		"soft: seed x":                 "expected a whole number",
		"soft: lose 1%":                "expected loss, corrupt",
		"soft: loss":                   `the share of packets is ""`,
		"soft: loss 101%":              "expected 0% to 100%",
		"soft: loss NaN":               "expected 0% to 100%",
		"soft: loss -1%":               "expected 0% to 100%",
		"soft: delay 2":                "with its unit",
		"soft: delay -2ms":             "above zero",
		"soft: down 2s":                `stands where "every" is expected`,
		"soft: down 2s every 1s":       "up for a part",
		"soft: down at 1s":             `stands where "for" is expected`,
		"soft: loss 1% to":             "expected a rank",
		"soft: loss 1% to -1":          "expected a rank",
		"soft: loss 1% behind 2":       `"behind" is not expected here`,
		"soft: loss 1%,":               "no fault between two commas",
		"soft: loss 1% corrupt 1%":     `"corrupt" is not expected here`,
		"soft: down at 1s for 0s on 1": "above zero",
	} {
		if _, err := ParseFaults(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v: expected %q", text, err, want)
		}
	}
}

// A rank has those faults that are on it, with the address of whom they are for.
func TestFaultsAt(t *testing.T) {
	errNone := errors.New("there is none")
	locate := func(rank int) (netip.Addr, error) {
		if rank > 2 {
			return netip.Addr{}, errNone
		}
		return netip.AddrFrom4([4]byte{127, 0, 0, byte(rank)}), nil
	}
	all, err := ParseFaults("soft: loss 1%, loss 2% to 1, loss 3% on 2, loss 4% to 2 on 0")
	if err != nil {
		t.Fatal(err)
	}
	for rank, want := range [][]float64{{0.01, 0.02, 0.04}, {0.01}, {0.01, 0.02, 0.03}} {
		own, err := all.At(rank, locate)
		if err != nil {
			t.Fatal(err)
		}
		var got []float64
		for _, f := range own.List {
			got = append(got, f.Loss)
			if f.Loss == 0.02 && f.Addr.String() != "127.0.0.1" {
				t.Errorf("what is for rank 1 is for %s", f.Addr)
			}
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("rank %d has losses %v: expected %v", rank, got, want)
		}
	}
	for _, text := range []string{"soft: loss 1% to 3", "soft: loss 1% on 3"} {
		f, err := ParseFaults(text)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.At(0, locate); !errors.Is(err, errNone) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func TestOutage(t *testing.T) {
	once, again := Outage{For: 2, At: 5}, Outage{For: 2, Every: 10}
	for since := range time.Duration(30) {
		if want := since == 5 || since == 6; once.Holds(since) != want {
			t.Errorf("%v holds at %d: %t", once, since, !want)
		}
		if want := since%10 >= 8; again.Holds(since) != want {
			t.Errorf("%v holds at %d: %t", again, since, !want)
		}
	}
	if (Outage{}).Holds(0) {
		t.Error("none holds")
	}
}
