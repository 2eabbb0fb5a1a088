package bootstrap

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"

	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/bootstrap/oob"
)

// probe is what a probe asks with.
type probe struct {
	Digest   string `json:"digest"`             // of the asker's list, or another that it knows of
	Instance string `json:"instance,omitempty"` // is it that?
	Group    *Group `json:"group,omitempty"`    // the asker's, of which it wants the leader's latest
}

// status is what a node says of itself to a probe. Who does not have its list hears its
// rank and, on the same host, its process. The digest of the list and the instance are not
// in it: who knows them passes for a rank, or for this one.
type status struct {
	Host    string `json:"host,omitempty"`
	PID     int    `json:"pid,omitempty"`
	Rank    int    `json:"rank"`
	Size    int    `json:"size,omitempty"`
	Same    bool   `json:"same"`             // it has the asker's list
	Itself  bool   `json:"itself,omitempty"` // it is the instance that was asked for
	State   string `json:"state"`
	Waiting []int  `json:"waiting,omitempty"` // the ranks that it waits for
	// Activity is what it does, and for how long.
	Activity string        `json:"activity,omitempty"`
	For      time.Duration `json:"for_ns,omitempty"`
	Failure  string        `json:"failure,omitempty"`
	// Counted is what it knows of attempts to connect, while the ring comes up.
	Counted []attempts `json:"counted,omitempty"`
	All     bool       `json:"all_addresses,omitempty"` // it listens on all addresses of its node
	// Group is what the leader has decided since, of the list that the asker was given.
	Group *Group `json:"group,omitempty"`
}

func (s *status) who() identity { return identity{Host: s.Host, PID: s.PID} }

// mostWaiting bounds the ranks that a status names.
const mostWaiting = 1024

// prober calls other ranks, and asks them how they are. It has no state.
type prober struct {
	own     *node
	life    *lifetime
	members *members
}

// probesAtOnce bounds the connections of one probe of the list.
const probesAtOnce = 64

// probeTimeout is how long a node that is up may take to answer.
const probeTimeout = time.Second

// awake is a context that ends when this process has been awake for so long: nobody is to
// blame for what it does not hear while it gets no CPU itself.
func awake(ctx context.Context, d time.Duration) (context.Context, context.CancelFunc) {
	const steps = 8 // each counts as one, however long it took
	ctx, cancel := context.WithCancel(ctx)
	go func() { // cancel ends it
		for range steps {
			select {
			case <-time.After(d / steps):
			case <-ctx.Done():
				return
			}
		}
		cancel()
	}()
	return ctx, cancel
}

// probeAll asks every other rank how it is, all at once, and returns what it
// learned, by rank. It takes at most a second of this process's time.
func (p *prober) probeAll(ctx context.Context) []PeerReport {
	ctx, cancel := awake(ctx, probeTimeout)
	defer cancel()
	reports := make([]PeerReport, p.own.size)
	slots := make(chan struct{}, probesAtOnce)
	var probes sync.WaitGroup
	for rank := range reports {
		if rank == p.own.rank {
			continue
		}
		slots <- struct{}{}
		probes.Go(func() {
			reports[rank] = p.probeRank(ctx, rank)
			<-slots
		})
	}
	probes.Wait()
	return slices.Delete(reports, p.own.rank, p.own.rank+1)
}

// probeRank asks one rank how it is. It takes at most a second.
func (p *prober) probeRank(ctx context.Context, rank int) PeerReport {
	ctx, cancel := awake(ctx, probeTimeout)
	defer cancel()
	r := PeerReport{Rank: rank, Node: p.own.cfg.List[rank].String()}
	s, err := p.probe(ctx, rank, p.own.at(rank), probe{})
	if err != nil {
		if mute, ok := errors.AsType[*muteError](err); ok {
			r.Mute, r.Took = true, mute.took
		}
		_, r.unasked = errors.AsType[*unaskedError](err)
		r.State = err.Error()
		who := p.members.of(rank)
		if stopped, _, _, pid := p.members.process(rank); stopped {
			r.State = fmt.Sprintf("stopped: its host shows process %d so (fg or kill -CONT goes on)", pid)
		} else if errors.Is(err, errRefused) && who.PID != 0 {
			r.State = fmt.Sprintf(notRunning+" (connection refused): it had come (%s), and has ended", who)
		}
		return r
	}
	r.Up, r.State = true, s.described(rank)
	if s.Same && s.Rank == rank {
		r.counted, r.waiting = s.Counted, s.Waiting
	}
	return r
}

// muteError is that nothing came back in time.
type muteError struct {
	text string
	took bool // its host took the call
}

func (e *muteError) Error() string { return e.text }

// notRunning begins the state of a rank on whose port nobody listens.
const notRunning = "not running"

var errRefused = errors.New(notRunning + " (connection refused)")

// unaskedError is that this rank could not call, for want of descriptors or the like.
type unaskedError struct{ error }

// described says how a rank is that has answered.
func (s *status) described(rank int) string {
	switch {
	case !s.Same:
		return "up, but with another list: give all nodes the same --list" + everywhere(s.All)
	case s.Rank != rank:
		return fmt.Sprintf("up, but as rank %d: check its --index", s.Rank)
	case s.Failure != "":
		return "up, failed: " + s.Failure
	case len(s.Waiting) > 0:
		return fmt.Sprintf("up, waiting for %s (%s)", calls.Ranks(s.Waiting), s.State)
	case s.Activity == "":
		return "up (" + s.State + ")"
	}
	return fmt.Sprintf("up, %s for %s", s.Activity, calls.Ago(s.For))
}

// reach dials an address. The error says what happened instead.
func (p *prober) reach(ctx context.Context, at netip.AddrPort) (net.Conn, error) {
	start := time.Now()
	conn, err := p.own.cfg.Dial(ctx, "tcp", at.String())
	switch {
	case err == nil:
		return conn, nil
	case errors.Is(err, syscall.ECONNREFUSED):
		return nil, errRefused
	case errors.Is(err, os.ErrDeadlineExceeded) || errors.Is(err, syscall.ETIMEDOUT) || ctx.Err() != nil:
		return nil, &muteError{text: fmt.Sprintf("no answer in %s: host down, or a firewall", time.Since(start).Round(10*time.Millisecond))}
	case errors.Is(err, syscall.ENETUNREACH), errors.Is(err, syscall.ENETDOWN):
		return nil, &muteError{text: fmt.Sprintf("network is unreachable: this node has no route there (ip route get %s)", at.Addr())}
	case errors.Is(err, syscall.EHOSTUNREACH):
		return nil, &muteError{text: fmt.Sprintf("no route to host: nobody there answers ARP, or a router refuses (ip neigh show %s)", at.Addr())}
	}
	return nil, &unaskedError{err}
}

// probe asks one rank at an address. Without an answer, the error says what happened
// instead; that of another version is an error, too.
func (p *prober) probe(ctx context.Context, rank int, at netip.AddrPort, asked probe) (*status, error) {
	asked.Digest = cmp.Or(asked.Digest, p.own.digest)
	start := time.Now()
	conn, err := p.reach(ctx, at)
	if err != nil {
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	_, f, err := p.ask(ctx, conn, TypeProbe, rank, p.own.rank, asked)
	if err != nil && f != nil {
		got, _ := oob.Decode[status](f)
		return &got, err
	}
	if err != nil {
		if ctx.Err() != nil {
			text := fmt.Sprintf("connected, but no answer in %s: stopped, or not ringcli", time.Since(start).Round(10*time.Millisecond))
			if short, ok := errors.AsType[*oob.ShortError](err); ok {
				text = explain(conn, short, 0)
			} else if told, ok := errors.AsType[*strangerError](err); ok { // the connection's deadline was first
				text = told.text
			}
			return nil, &muteError{text, true}
		}
		return nil, err
	}
	if f.Type != TypeState {
		return nil, fmt.Errorf("answered a probe with a %q frame", f.Type)
	}
	got, err := oob.Decode[status](f)
	if err != nil {
		return nil, err
	}
	return &got, nil
}

// follow asks ranks how they are, and then those that they wait for, and returns the
// reports of those that wait for no other: at most four.
func (p *prober) follow(ctx context.Context, from []int) (ends []PeerReport) {
	const most = 4
	asked := map[int]bool{p.own.rank: true}
	for queue := slices.Clone(from); len(queue) > 0 && len(ends) < most; {
		rank := queue[0]
		queue = queue[1:]
		if asked[rank] {
			continue
		}
		asked[rank] = true
		r := p.probeRank(ctx, rank)
		more := slices.DeleteFunc(slices.Clone(r.waiting), func(r int) bool { return asked[r] || r < 0 || r >= p.own.size })
		if queue = append(queue, more...); len(more) == 0 {
			ends = append(ends, r)
		}
	}
	return ends
}
