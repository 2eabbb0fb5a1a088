package session

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"ringcli/collective"
)

// Fault damages one segment that arrives at one rank, in every checked run: the
// proof that a check finds what it is for.
type Fault struct {
	kind  string // flip or swap; empty: none
	rank  int
	armed bool   // while a checked run is under way
	first []byte // swap: the segment that came first
}

func (f *Fault) String() string {
	if f.kind == "" {
		return ""
	}
	return f.kind + "@" + strconv.Itoa(f.rank)
}
func (f *Fault) Type() string { return "fault" }
func (f *Fault) Set(text string) error {
	kind, rank, _ := strings.Cut(text, "@")
	n, err := strconv.Atoi(rank)
	if kind != "flip" && kind != "swap" || err != nil || n < 0 {
		return fmt.Errorf("expected flip@RANK (one bit of the first segment that arrives) or swap@RANK (the first segment's bytes in the second's place)")
	}
	f.kind, f.rank = kind, n
	return nil
}

// FaultFlag is --corrupt, which help does not show.
func FaultFlag(fs *pflag.FlagSet) {
	fs.Var(&Fault{}, "corrupt", "")
	if err := fs.MarkHidden("corrupt"); err != nil {
		panic("cli: " + err.Error())
	}
}

// injector returns what collective calls for each segment; nil for no fault at
// this rank, so that a run without a fault is exactly as usual.
func (f *Fault) injector(rank int) func(collective.Operation, int, []byte) {
	if f == nil || f.kind == "" || f.rank != rank {
		return nil
	}
	return func(_ collective.Operation, segment int, payload []byte) {
		switch {
		case !f.armed || len(payload) == 0:
		case f.kind == "flip" && segment == 0:
			payload[len(payload)-1] ^= 0x80 // a sign: no rounding hides it
		case f.kind == "swap" && segment == 0:
			f.first = append(f.first[:0], payload...)
		case f.kind == "swap" && segment == 1:
			copy(payload, f.first)
		}
	}
}

// Arm is called around a checked run.
func (f *Fault) Arm(on bool) {
	if f != nil {
		f.armed = on
	}
}
