package bench

import (
	"context"

	"ringcli/cli/bench/batch"
	"ringcli/cli/bench/corruption"
	"ringcli/cli/session"
	"ringcli/collective"
	"ringcli/collective/reduce/reference"
)

// checking is the checked runs of a measurement.
type checking struct {
	corruption.Locator
	wrong uint64 // elements on this rank
	first *corruption.WrongElement
	talk  *batch.Talk // of a measurement that lasts, or nil
}

// next runs the operation on fresh inputs and verifies every element. All ranks hear
// whether some are wrong, and then look together where that came from.
func (c *checking) next(ctx context.Context, m *session.Member, o operation, v vectors) error {
	c.Checks++
	mine, plan, err := checked(ctx, m, o, v)
	if err != nil {
		return err
	}
	c.wrong += mine.Wrong
	if mine.Wrong > 0 && c.first == nil {
		c.first = &mine.First
	}
	wrong, err := c.sum(ctx, m, mine.Wrong)
	if err != nil {
		return err
	}
	if wrong == 0 {
		return nil
	}
	all, err := session.Share(ctx, m, mine)
	if err != nil {
		return err
	}
	c.Add(plan, all)
	return nil
}

// sum adds up what all ranks have found wrong.
func (c *checking) sum(ctx context.Context, m *session.Member, mine uint64) (wrong uint64, err error) {
	if c.talk != nil {
		words, err := c.talk.Share(ctx, batch.Said{mine})
		for _, w := range words {
			wrong += w[0]
		}
		return wrong, err
	}
	told, err := session.Share(ctx, m, mine)
	for _, n := range told {
		wrong += n
	}
	return wrong, err
}

// checked runs the operation on fresh inputs, with a journal, and verifies every element.
func checked(ctx context.Context, m *session.Member, o operation, v vectors) (mine corruption.Told, plan collective.Call, err error) {
	m.Checks++
	r, err := o.on(m, v)
	if err != nil {
		return mine, plan, err
	}
	if err := fill(ctx, m, o, v, o.seed(m.Checks)); err != nil {
		return mine, plan, err
	}
	if mine.Journal, err = r.recorded(ctx); err != nil {
		return mine, plan, err
	}
	plan, mine.Rank = r.plan, m.Comm.Rank()
	c := plan.Checker(m.Comm.Size(), m.Comm.Hosts(), o.seed(m.Checks))
	o.lenient(c, m.Comm.Size())
	c.OnWrong = mine.Note
	verify(&mine, o, c, v)
	return mine, plan, o.checkInFlight(ctx, m, r, v, &mine)
}

// verify compares what an operation has received with the reference.
func verify(r *corruption.Told, o operation, c *reference.Checker, v vectors) {
	compare := c.VerifyGathered
	if o.op.Reduces() {
		compare = c.Verify
	}
	bad, at := compare(v.received.Lo, v.received.Hi, v.bytes(v.recv, v.received, o.typ.Size()))
	if bad > 0 && r.Wrong == 0 {
		r.First = corruption.WrongElement{Rank: r.Rank, Offset: at.Offset, Got: at.Got, Want: at.Want}
	}
	r.Wrong += uint64(bad)
}

// checkInFlight runs all operations that are in flight at once on fresh inputs, each on its own,
// and verifies every element of each.
func (o operation) checkInFlight(ctx context.Context, m *session.Member, r runs, v vectors, mine *corruption.Told) error {
	if len(v.beside) == 0 {
		return nil
	}
	all := append([]vectors{v}, v.beside...)
	seed := func(i int) uint64 { return o.seed(m.Checks + uint64(i)) }
	for i := range all {
		if err := fill(ctx, m, o, all[i], seed(i)); err != nil {
			return err
		}
	}
	if err := r.fly(ctx); err != nil {
		return err
	}
	for i := range all {
		c := r.plan.Checker(m.Comm.Size(), m.Comm.Hosts(), seed(i))
		o.lenient(c, m.Comm.Size())
		verify(mine, o, c, all[i])
	}
	return nil
}
