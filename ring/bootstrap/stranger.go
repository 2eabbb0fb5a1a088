package bootstrap

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ringcli/ring/bootstrap/oob"
	"ringcli/trace"
)

// sameHost tells whether two addresses are one, or both of this machine: whoever
// calls a neighbour on the own machine may do so from any of its addresses.
func sameHost(a, b netip.Addr, own func(netip.Addr) bool) bool {
	a, b = a.Unmap().WithZone(""), b.Unmap().WithZone("")
	return a.IsValid() && (a == b || own(a) && own(b))
}

func isOwn(a netip.Addr) bool { return ownAddrs()(a) }

// ownAddrs tells of many addresses whether they are of this machine: it asks the kernel once,
// whatever the length of the list that a stranger's hello is compared with.
func ownAddrs() func(netip.Addr) bool {
	list := sync.OnceValue(func() []net.Addr {
		addrs, _ := net.InterfaceAddrs() // without them none is, but for loopback's
		return addrs
	})
	return func(a netip.Addr) bool {
		return a.IsLoopback() || slices.ContainsFunc(list(), func(own net.Addr) bool {
			p, err := netip.ParsePrefix(own.String())
			return err == nil && p.Addr().Unmap() == a
		})
	}
}

// strangerError is that a connection was made, and no frame came over it.
type strangerError struct {
	text  string
	other bool // something else came: it is of another program, which lives
}

func (e *strangerError) Error() string { return e.text }

// strangersEvery is how often the trace speaks of strangers.
const strangersEvery = time.Minute

// foreignPeers are strangers, who are told of in the trace: the first at once, of the others each minute how
// many of which kind there were. They may come in thousands.
type foreignPeers struct {
	mu      sync.Mutex
	timer   *time.Timer // guarded by mu, as below; nil if none came for a minute
	kinds   []strangerKind
	rest    int      // of kinds beyond mostKinds
	remarks []string // on the last ones
}

type strangerKind struct {
	what  string
	count int
}

// mostKinds bounds the line.
const mostKinds = 8

// saw notes a caller that does not belong here. Bring-up goes on.
func (s *foreignPeers) saw(conn net.Conn, listener net.Listener, what string) {
	from := conn.RemoteAddr().String()
	at := fmt.Sprintf("stranger at %s on port %s", from, listener.Addr())
	what = brief(what)
	host, _, _ := net.SplitHostPort(from)
	s.note(at, strings.ReplaceAll(what, from, host)) // of all ports of a host, one kind
	s.mu.Lock()
	defer s.mu.Unlock()
	const most = 4
	again := slices.IndexFunc(s.remarks, func(r string) bool { return strings.HasSuffix(r, ": "+what) })
	if again >= 0 {
		s.remarks = slices.Delete(s.remarks, again, again+1)
	}
	if s.remarks = append(s.remarks, at+": "+what); len(s.remarks) > most {
		s.remarks = s.remarks[1:]
	}
}

// remarked are the remarks on the last ones.
func (s *foreignPeers) remarked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.remarks)
}

// note notes one, or something else that may come as often.
func (s *foreignPeers) note(at, what string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil {
		trace.Warn(trace.Bootstrap, at+": "+what)
		s.timer = time.AfterFunc(strangersEvery, func() { s.tell(false) })
		return
	}
	i := slices.IndexFunc(s.kinds, func(k strangerKind) bool { return k.what == what })
	switch {
	case i >= 0:
		s.kinds[i].count++
	case len(s.kinds) < mostKinds:
		s.kinds = append(s.kinds, strangerKind{what, 1})
	default:
		s.rest++
	}
}

// tell traces those that were noted; at last it ends that.
func (s *foreignPeers) tell(last bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.timer == nil {
		return
	}
	s.timer.Stop()
	s.timer = nil
	if len(s.kinds) == 0 {
		return
	}
	if !last {
		s.timer = time.AfterFunc(strangersEvery, func() { s.tell(false) })
	}
	count, words := s.rest, make([]string, 0, mostKinds+1)
	for _, k := range s.kinds {
		count += k.count
		words = append(words, fmt.Sprintf("%d times: %s", k.count, k.what))
	}
	if s.rest > 0 {
		words = append(words, fmt.Sprintf("%d times: others", s.rest))
	}
	s.kinds, s.rest = nil, 0
	trace.Warn(trace.Bootstrap, fmt.Sprintf("%d more strangers within %s: %s", count, strangersEvery, strings.Join(words, "; ")))
}

// brief cuts a text that others see of this rank, or this one of strangers: JSON that holds
// several still fits a greeting.
func brief(text string) string {
	const most = 4 << 10
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + " ..."
}

// explain turns the failure to read a connection's first frame into a sentence
// that names the program at the other end.
func explain(conn net.Conn, err error, waited time.Duration) string {
	program, strange := oob.Stranger(conn, err)
	short, isShort := errors.AsType[*oob.ShortError](err)
	switch {
	case isShort:
		return fmt.Sprintf("connected, and sent %d of the %d bytes of a frame, and then: %v: stopped, or the path loses long packets", short.Came, short.Length, short.Err)
	case strange:
		return program + " is there, not ringcli"
	case errors.Is(err, os.ErrDeadlineExceeded):
		return fmt.Sprintf("connected, but said nothing that is a frame in %s: stopped, or not ringcli", waited)
	case errors.Is(err, io.EOF), errors.Is(err, syscall.ECONNRESET):
		return "took the connection and closed it without an answer: what has the port there is not known (ss -tlnp on that host shows it)"
	default:
		return err.Error()
	}
}
