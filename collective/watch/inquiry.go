package watch

import (
	"context"
	"sync"
	"time"

	"ringcli/ring/diagnose"
)

// inquiry asks the other ranks who is at fault, beside an operation that waits: about one wait at a time. But for the answers, it belongs to whoever runs the
// operation.
type inquiry struct {
	life    context.Context // ends with close
	end     context.CancelFunc
	running sync.WaitGroup
	answers chan answer // of capacity 1: one is asked at a time
	asking  bool
	asked   time.Time
	last    answer // of the wait that lasts
}

// answer is what was found of a wait.
type answer struct {
	number uint64 // of the operation that waits
	since  time.Time
	found  []diagnose.Blame // the gravest first; nil if nothing was found yet
}

func (a *answer) of(number uint64, since time.Time) bool {
	return a.number == number && a.since.Equal(since)
}

// newInquiry makes an inquiry.
func newInquiry() inquiry {
	life, end := context.WithCancel(context.Background())
	return inquiry{life: life, end: end, answers: make(chan answer, 1)}
}

// close ends what is being asked.
func (q *inquiry) close() {
	q.end()
	q.running.Wait()
}

// take takes an answer if there is one about the wait of an operation since then. It returns
// what the last two answers about it found: nil where there are not as many.
func (q *inquiry) take(number uint64, since time.Time) (found, before []diagnose.Blame) {
	if !q.last.of(number, since) {
		q.last = answer{number: number, since: since}
	}
	select {
	case a := <-q.answers:
		q.asking = false
		if a.of(number, since) {
			before, q.last = q.last.found, a
		}
	default:
	}
	return q.last.found, before
}

// ask has the others asked about a wait, unless they are, or were within a pause.
func (q *inquiry) ask(number uint64, since time.Time, pause time.Duration, ask func(context.Context) []diagnose.Blame) {
	if q.asking || time.Since(q.asked) <= pause {
		return
	}
	q.asking, q.asked = true, time.Now()
	q.running.Go(func() { q.answers <- answer{number, since, ask(q.life)} })
}
