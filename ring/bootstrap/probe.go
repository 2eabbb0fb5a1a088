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

func (c *Control) status(asked probe, by net.Addr) status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := status{Rank: c.rank, Same: asked.Digest == c.digest, Itself: asked.Instance == c.self.Instance, State: "up", All: c.listensOnAll()}
	if s.Same || s.Itself || isOwn(oob.AddrPort(by).Addr()) {
		s.Host, s.PID, s.Size = c.self.Host, c.self.PID, c.size
	}
	if g := asked.Group; g != nil && c.group.Supersedes(g) {
		s.Group = &c.group
	}
	if !s.Same {
		return s
	}
	s.State, s.Waiting, s.Activity, s.For = c.state, c.waiting[:min(len(c.waiting), mostWaiting)], c.activity, time.Since(c.active)
	if !c.sealed {
		s.Counted = c.known()
	}
	if c.failure != nil {
		s.Failure = brief(c.failure.Text)
	}
	return s
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

// Probe asks every other rank how it is, all at once, and returns what it
// learned, by rank. It takes at most a second of this process's time.
func (c *Control) Probe(ctx context.Context) []PeerReport {
	ctx, cancel := awake(ctx, probeTimeout)
	defer cancel()
	reports := make([]PeerReport, c.size)
	slots := make(chan struct{}, probesAtOnce)
	var probes sync.WaitGroup
	for rank := range reports {
		if rank == c.rank {
			continue
		}
		slots <- struct{}{}
		probes.Go(func() {
			reports[rank] = c.ProbeRank(ctx, rank)
			<-slots
		})
	}
	probes.Wait()
	return slices.Delete(reports, c.rank, c.rank+1)
}

// ProbeRank asks one rank how it is. It takes at most a second.
func (c *Control) ProbeRank(ctx context.Context, rank int) PeerReport {
	ctx, cancel := awake(ctx, probeTimeout)
	defer cancel()
	p := PeerReport{Rank: rank, Node: c.cfg.List[rank].String()}
	s, err := c.probe(ctx, rank, c.at(rank), probe{})
	if err != nil {
		if mute, ok := errors.AsType[*muteError](err); ok {
			p.Mute, p.Took = true, mute.took
		}
		_, p.unasked = errors.AsType[*unaskedError](err)
		p.State = err.Error()
		c.mu.Lock()
		who := c.members[rank]
		c.mu.Unlock()
		if stopped, _, _, pid := c.Process(rank); stopped {
			p.State = fmt.Sprintf("stopped: its host shows process %d so (fg or kill -CONT goes on)", pid)
		} else if errors.Is(err, errRefused) && who.PID != 0 {
			p.State = fmt.Sprintf(notRunning+" (connection refused): it had come (%s), and has ended", who)
		}
		return p
	}
	p.Up, p.State = true, c.describe(rank, s)
	if s.Same && s.Rank == rank {
		p.counted, p.waiting = s.Counted, s.Waiting
	}
	return p
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

func (c *Control) describe(rank int, s *status) string {
	switch {
	case !s.Same:
		return "up, but with another list: give all nodes the same --list" + everywhere(s.All)
	case s.Rank != rank:
		return fmt.Sprintf("up, but as rank %d: check its --index", s.Rank)
	case s.Failure != "":
		return "up, failed: " + s.Failure
	case len(s.Waiting) > 0:
		return fmt.Sprintf("up, waiting for %s (%s)", calls.Ranks(s.Waiting), s.State)
	default:
		return s.doing()
	}
}

// probe asks one rank at an address. Without an answer, the error says what happened
// instead; that of another version is an error, too.
func (c *Control) probe(ctx context.Context, rank int, at netip.AddrPort, asked probe) (*status, error) {
	asked.Digest = cmp.Or(asked.Digest, c.digest)
	start := time.Now()
	conn, err := c.cfg.Dial(ctx, "tcp", at.String())
	if err != nil {
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return nil, errRefused
		case errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil:
			return nil, &muteError{text: fmt.Sprintf("no answer in %s: host down, or a firewall", time.Since(start).Round(10*time.Millisecond))}
		case errors.Is(err, syscall.ENETUNREACH):
			return nil, &muteError{text: fmt.Sprintf("network is unreachable: this node has no route there (ip route get %s)", at.Addr())}
		case errors.Is(err, syscall.EHOSTUNREACH):
			return nil, &muteError{text: fmt.Sprintf("no route to host: nobody there answers ARP, or a router refuses (ip neigh show %s)", at.Addr())}
		}
		return nil, &unaskedError{err}
	}
	defer func() { _ = conn.Close() }()
	_, f, err := c.ask(ctx, conn, TypeProbe, rank, c.rank, asked)
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
