package cpu

import (
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"
)

// Affinity is the CPU that a rank's polling thread comes back to. What a short operation
// takes is a matter of where the ranks of a host run: three times as long on distant CPUs
// as on close ones, and ten times as long on one CPU together, where a wake-up puts two
// ranks that never sleep, and where the kernel, which sees them yield, leaves them for
// seconds.
//
// An Affinity is a hint, not a binding: the thread may run on all CPUs that it might run
// on before, and one that another program wants is left to that program. A lock on the
// CPU's directory in sysfs, which ends with the process, keeps the ranks of other rings
// from choosing the same.
//
// It is safe for concurrent use. A nil Affinity does nothing.
type Affinity struct {
	cpus    []int         // to choose among
	crowded bool          // there are fewer than ranks: who waits there waits for its like
	longest time.Duration // pause
	made    time.Time
	next    atomic.Int64 // when it is looked at next, in nanoseconds since made
	cpu     atomic.Int64

	mu     sync.Mutex // a look, and Close
	closed bool
	lock   *os.File  // nil if there is none
	rest   time.Time // it is left where it is until then
	came   stay      // there, to be judged; the zero one has been
	// How often in a row it had to wait there, and for how long it is left alone then.
	strikes int
	pause   time.Duration
}

// stay is when a thread was moved to its CPU, and how long it had waited for one until then.
type stay struct {
	thread int
	since  time.Time
	waited time.Duration
}

const (
	// lookEvery is how often an Affinity is looked at: a look takes 0.3 us, a move some 10.
	lookEvery = 2 * time.Millisecond
	// Who has to wait for busyShare of the time, and busyLeast, after it came to its CPU
	// shares it with another program: a slice of the scheduler is some 3 ms. It is left
	// alone for ever longer then, in the end for longestPause, and after busyTimes in a row
	// it takes the CPU that the kernel has put it on, if no other rank has that. Where the
	// ranks need all CPUs each other one is a rank's, and the pauses are short.
	busyShare    = 0.2
	busyLeast    = time.Millisecond
	busyTimes    = 3
	longestPause = time.Second
	longestFull  = 20 * time.Millisecond
)

// NewAffinity chooses among the CPUs, in the order of preference, for one of a host's
// ranks: index counts them, from 0. It returns nil where other rings have them all: the
// kernel finds an idle one by itself.
func NewAffinity(cpus []int, index, ranks int) *Affinity {
	if len(cpus) == 0 {
		return nil
	}
	a := &Affinity{cpus: slices.Clone(cpus), crowded: ranks > len(cpus), made: time.Now(), pause: lookEvery, longest: longestPause}
	if ranks >= len(cpus) {
		a.longest = longestFull
	}
	// A second ring takes the CPUs beside those of the first, likewise side by side.
	order := []int{cpus[index%len(cpus)]}
	for i := index + ranks; i < len(cpus); i += ranks {
		order = append(order, cpus[i])
	}
	for _, cpu := range append(order, cpus...) {
		if lock, err := claim(cpu); !errors.Is(err, errClaimed) {
			a.lock = lock
			a.cpu.Store(int64(cpu))
			return a
		}
		if ranks >= len(cpus) {
			a.cpu.Store(int64(cpu))
			return a
		}
	}
	return nil
}

// errClaimed is of a CPU that another rank has.
var errClaimed = errors.New("another rank polls there")

// claim locks the directory of a CPU. Whatever keeps it from that but another's lock, such as a
// container without sysfs, leaves the rank without: no more is lost than the knowledge of
// other rings.
func claim(cpu int) (*os.File, error) {
	f, err := os.Open(directory(cpu))
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		return f, nil
	}
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errClaimed
	}
	return nil, errors.Join(err, f.Close())
}

// CPU is the one, numbered as in /proc/cpuinfo.
func (a *Affinity) CPU() int { return int(a.cpu.Load()) }

// Close gives the CPU up.
func (a *Affinity) Close() error {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed = true; a.lock == nil {
		return nil
	}
	return a.lock.Close()
}

// Restore brings the calling thread back to its CPU if it has left it and if it was not
// looked at for a while before now. It tells whether that took time.
func (a *Affinity) Restore(now time.Time) bool {
	if a == nil {
		return false
	}
	at, next := int64(now.Sub(a.made)), a.next.Load()
	if at < next || !a.next.CompareAndSwap(next, at+int64(lookEvery)) {
		return false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return false
	}
	runtime.LockOSThread() // so that it is one thread throughout
	defer runtime.UnlockOSThread()
	running, err := current()
	if err != nil {
		return false
	}
	judged := a.came != stay{}
	if judged {
		a.judge(now, running)
	}
	var allowed unix.CPUSet
	if running == a.CPU() || now.Before(a.rest) || unix.SchedGetaffinity(0, &allowed) != nil || !allowed.IsSet(a.CPU()) {
		return judged // or somebody has bound the thread elsewhere
	}
	if !a.crowded {
		a.came = stay{unix.Gettid(), now, waited()}
	}
	a.move(&allowed)
	return true
}

// judge tells from what the thread had to wait for since it came to its CPU whether another
// program runs there.
func (a *Affinity) judge(now time.Time, running int) {
	came := a.came
	a.came = stay{}
	if came.thread != unix.Gettid() {
		return
	}
	delay := waited() - came.waited
	if delay < busyLeast || float64(delay) < busyShare*float64(now.Sub(came.since)) {
		a.strikes, a.pause = 0, lookEvery
		return
	}
	a.pause = min(2*a.pause, a.longest)
	a.rest = now.Add(a.pause)
	if a.strikes++; a.strikes < busyTimes || running == a.CPU() || !slices.Contains(a.cpus, running) {
		return
	}
	if lock, err := claim(running); !errors.Is(err, errClaimed) {
		if a.lock != nil {
			_ = a.lock.Close() // the lock ends with it, whatever it returns
		}
		a.lock, a.strikes, a.pause = lock, 0, lookEvery
		a.cpu.Store(int64(running))
	}
}

// move binds the thread to its CPU, which brings it there, and frees it again.
func (a *Affinity) move(allowed *unix.CPUSet) {
	var own unix.CPUSet
	own.Set(a.CPU())
	if unix.SchedSetaffinity(0, &own) == nil {
		_ = unix.SchedSetaffinity(0, allowed)
	}
}

// waited is for how long the thread has been ready to run and had no CPU; 0 where the
// kernel does not count.
func waited() (d time.Duration) {
	f, err := os.Open("/proc/thread-self/schedstat")
	if err != nil {
		return 0
	}
	text, _ := io.ReadAll(f)
	_ = f.Close()
	var ran uint64
	_, _ = fmt.Sscan(string(text), &ran, (*int64)(&d))
	return d
}
