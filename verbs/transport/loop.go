package transport

import (
	"errors"
	"maps"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sys/unix"
)

// Loop serves any number of transports, with one goroutine for each of their devices.
type Loop struct {
	mu       sync.Mutex
	adapters map[place]*adapter // guarded by mu, as all below
	closed   bool

	listed atomic.Bool // Descriptor was called
	list   struct {
		sync.Mutex
		event   int       // eventfd; guarded by the lock, as all below
		futures []*Future // resolved since Completed
	}
}

// place is what transports have in common that share an open device.
type place struct {
	device string
	local  netip.Addr
	port   int
	gid    int // index; -1: the best
}

// NewLoop makes a loop without transports.
func NewLoop() *Loop {
	l := &Loop{adapters: make(map[place]*adapter)}
	l.list.event = -1
	return l
}

// Descriptor is a file descriptor that is readable while futures have been resolved that
// Completed has not returned: for poll(2) and the event loops of others. It is the
// loop's, and closed with it. Futures that were resolved before the first call are left out.
func (l *Loop) Descriptor() (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return -1, failed(ErrClosed, "descriptor of a loop that is closed")
	}
	l.list.Lock()
	if l.list.event < 0 {
		fd, err := unix.Eventfd(0, unix.EFD_CLOEXEC|unix.EFD_NONBLOCK)
		if err != nil {
			l.list.Unlock()
			return -1, failed(ErrSystem, "eventfd: %w", err)
		}
		l.list.event = fd
		l.listed.Store(true)
	}
	fd := l.list.event
	l.list.Unlock()
	for _, a := range l.adapters {
		a.kick() // nobody may come to poll
	}
	return fd, nil
}

// Completed returns the futures that have been resolved since the last call, in that
// order, for a loop whose Descriptor was asked for, which is not readable then.
func (l *Loop) Completed() []*Future {
	l.list.Lock()
	defer l.list.Unlock()
	list := l.list.futures
	if l.list.futures = nil; list != nil {
		var count [8]byte
		_, _ = unix.Read(l.list.event, count[:]) // it is readable
	}
	return list
}

// completed notes that a future is resolved.
func (l *Loop) completed(f *Future) {
	if !l.listed.Load() || f.internal() {
		return
	}
	l.list.Lock()
	defer l.list.Unlock()
	if l.list.event < 0 {
		return
	}
	if len(l.list.futures) == 0 {
		_, _ = unix.Write(l.list.event, []byte{1, 0, 0, 0, 0, 0, 0, 0}) // an eventfd at 0 takes it
	}
	l.list.futures = append(l.list.futures, f)
}

// adapter returns the loop's open device of a place, opened by the first.
func (l *Loop) adapter(p place, o *Options) (*adapter, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return nil, failed(ErrClosed, "a transport on a loop that is closed")
	}
	if a := l.adapters[p]; a != nil {
		return a, nil
	}
	a, err := open(l, p, o)
	if err != nil {
		return nil, err
	}
	l.adapters[p] = a
	return a, nil
}

// Close closes the loop's transports and memories, and then the devices. Closing twice is
// harmless.
func (l *Loop) Close() error {
	l.mu.Lock()
	adapters := slices.Collect(maps.Values(l.adapters))
	l.closed = true
	l.adapters = nil
	l.mu.Unlock()
	var errs []error
	for _, a := range adapters {
		errs = append(errs, a.close())
	}
	l.list.Lock()
	defer l.list.Unlock()
	if l.list.event >= 0 {
		errs = append(errs, unix.Close(l.list.event))
		l.list.event, l.list.futures = -1, nil
	}
	return errors.Join(errs...)
}
