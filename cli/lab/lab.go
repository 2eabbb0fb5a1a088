// Package lab walks two queue pairs through everything that verbs ask for, one
// step at a time: lab A within one process, lab C between two hosts, lab D either way
// on the memory of GPUs. Each step
// tells what the objects themselves say once it is taken, and fails if that is
// not what it should be, so that a wrong value can be tried and seen to fail.
package lab

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"ringcli/cli/endpoint"
	"ringcli/verbs"
	"ringcli/verbs/gpu"
)

// Options say what a lab works with.
type Options struct {
	endpoint.Options
	// Bytes is the length of each message.
	Bytes int
	// GPU has the memory; nil: the host has.
	GPU *gpu.Device
	// Timeout is the longest single wait.
	Timeout time.Duration `setting:"timeout"`
	// Wrong are values to use in place of the proper ones.
	Wrong Wrong
	// Waiting is told what is being waited for; what it returns is called once that has
	// come.
	Waiting func(what string) (done func())
	// Begin is told the step that is about to be taken, Done how it went. An
	// error of theirs, such as of an output that is gone, ends the lab.
	Begin func(Step) error
	Done  func(Step) error
}

// Wrong are values that this end uses in place of those that its peer told; nil
// is the proper one. In lab A it is queue pair 0 that uses them.
type Wrong struct {
	DestQPN *uint32 `flag:"dest-qpn"` // dest_qp_num of INIT to RTR
	PSN     *uint32 `flag:"psn"`      // rq_psn of INIT to RTR
	RAddr   *uint64 `flag:"raddr"`    // remote address of WRITE and READ
	RKey    *uint32 `flag:"rkey"`     // rkey of WRITE and READ
}

// Step is a step of a lab and what came of it.
type Step struct {
	Number  int // from 1
	Name    string
	Call    string // what it is in libibverbs
	Explain string // what it does and why: lines of at most 78 columns
	// Values are what this end's objects say now, Peer what the other end's do:
	// in lab A queue pair 1's.
	Values, Peer Values
	Err          error

	take func(context.Context, *Step) error
}

// valuesOf are the values of an end of this process.
func (s *Step) valuesOf(end int) *Values {
	if end == 0 {
		return &s.Values
	}
	return &s.Peer
}

// What a WRITE and a READ are in libibverbs.
const (
	callWrite = "ibv_post_send (IBV_WR_RDMA_WRITE), ibv_poll_cq"
	callRead  = "ibv_post_send (IBV_WR_RDMA_READ), ibv_poll_cq"
)

// explained adds what the steps do and why. Lab D's own are where it differs.
func (o *Options) explained(lab string, steps []Step) []Step {
	for i := range steps {
		s := &steps[i]
		s.Explain = Explain(lab + ": " + s.Name)
		if o.GPU != nil {
			s.Explain = cmp.Or(Explain("d: "+s.Name), s.Explain)
		}
	}
	return steps
}

// Value is something that a live object says of itself.
type Value struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Values are in the order in which a person should read them.
type Values []Value

// add takes names and values, in turn.
func (v *Values) add(pairs ...any) {
	for pair := range slices.Chunk(pairs, 2) {
		*v = append(*v, Value{pair[0].(string), fmt.Sprint(pair[1])})
	}
}

// hex writes an address, a key or a mask.
func hex[T verbs.Access | uint32 | uint64](n T) string { return fmt.Sprintf("%#x", uint64(n)) }

// Get returns the value of a name; empty if there is none.
func (v Values) Get(name string) string {
	for _, x := range v {
		if x.Name == name {
			return x.Text
		}
	}
	return ""
}

// walk takes the steps in order, telling of each, until one fails. What a step
// gives back is kept in it also where it fails.
func (o *Options) walk(ctx context.Context, steps []Step) error {
	for i := range steps {
		s := &steps[i]
		s.Number = i + 1
		if err := ctx.Err(); err != nil {
			return context.Cause(ctx)
		}
		if err := o.Begin(*s); err != nil {
			return err
		}
		s.Err = s.take(ctx, s)
		if ctx.Err() != nil && s.Err != nil {
			return context.Cause(ctx)
		}
		told := o.Done(*s)
		if s.Err != nil {
			return errors.Join(fmt.Errorf("step %d, %s: %w", s.Number, s.Name, s.Err), told)
		}
		if told != nil {
			return told
		}
	}
	return nil
}
