package backend

import (
	"runtime"
	"sync"

	"ringcli/verbs/gpu"
)

// thread is an operating system's thread of its own, on which a device is current: what runs
// there may block for ever without that anybody else does.
type thread struct {
	work chan job
	over func() // ends it once
}

type job struct {
	f    func() error
	done chan outcome
}

// outcome is what a job ends in.
type outcome struct{ err error }

// newThread starts one. Its device stays current: a library changes that only while it runs.
func newThread(d *gpu.Device) thread {
	work := make(chan job, 1)
	t := thread{work, sync.OnceFunc(func() { close(work) })}
	go func() {
		runtime.LockOSThread() // and ends with the goroutine
		for j := range t.work {
			j.done <- outcome{d.Use(j.f)}
		}
	}()
	return t
}

// run has f run there, and returns where its error comes. One runs at a time.
func (t thread) run(f func() error) <-chan outcome {
	done := make(chan outcome, 1)
	t.work <- job{f, done}
	return done
}

// end lets the thread go, on which nothing runs.
func (t thread) end() {
	if t.over != nil {
		t.over()
	}
}
