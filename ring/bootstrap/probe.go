package bootstrap

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"slices"
	"sync"
	"syscall"
	"time"
)

// status is what a node says of itself to a probe.
type status struct {
	identity
	Rank    int    `json:"rank"`
	Size    int    `json:"size"`
	Digest  string `json:"digest"`
	State   string `json:"state"`
	Waiting []int  `json:"waiting,omitempty"` // the ranks that it waits for
	// Activity is what it does, and for how long.
	Activity string        `json:"activity,omitempty"`
	For      time.Duration `json:"for_ns,omitempty"`
	Failure  string        `json:"failure,omitempty"`
	// Counted is what it knows of attempts to connect, while the ring comes up.
	Counted []attempts `json:"counted,omitempty"`
	All     bool       `json:"all_addresses,omitempty"` // it listens on all addresses of its node
}

func (c *Control) status() status {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := status{identity: c.self, Rank: c.rank, Size: c.size, Digest: c.digest, State: c.state, Waiting: c.waiting, All: c.listensOnAll(), Activity: c.activity, For: time.Since(c.active)}
	if !c.sealed {
		s.Counted = c.known()
	}
	if c.failure != nil {
		s.Failure = c.failure.Text
	}
	return s
}

// probesAtOnce bounds the connections of one probe of the list.
const probesAtOnce = 64

// probeTimeout is how long a node that is up may take to answer.
const probeTimeout = time.Second

// Probe asks every other rank how it is, all at once, and returns what it
// learned, by rank. It takes at most a second.
func (c *Control) Probe(ctx context.Context) []PeerReport {
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
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
	ctx, cancel := context.WithTimeout(ctx, probeTimeout)
	defer cancel()
	p := PeerReport{Rank: rank, Node: c.cfg.List[rank].String()}
	s, err := c.probe(ctx, rank, c.cfg.Addrs[rank])
	if err != nil {
		_, p.Mute = errors.AsType[*muteError](err)
		p.State = err.Error()
		return p
	}
	p.Up, p.State = true, c.describe(rank, s)
	if s.Digest == c.digest && s.Rank == rank {
		p.counted, p.waiting = s.Counted, s.Waiting
	}
	return p
}

// muteError is that nothing came back in time.
type muteError struct{ text string }

func (e *muteError) Error() string { return e.text }

func (c *Control) describe(rank int, s *status) string {
	switch {
	case s.Digest != c.digest:
		return fmt.Sprintf("up, but with another list (%d nodes, digest %s, here %s)%s", s.Size, s.Digest, c.digest, everywhere(s.All))
	case s.Rank != rank:
		return fmt.Sprintf("up, but as rank %d: check its --index", s.Rank)
	case s.Failure != "":
		return "up, failed: " + s.Failure
	case len(s.Waiting) > 0:
		return fmt.Sprintf("up, waiting for %s (%s)", rankList(s.Waiting), s.State)
	default:
		return s.doing()
	}
}

// probe asks one rank at an address. Without an answer, the error says what happened instead.
func (c *Control) probe(ctx context.Context, rank int, at netip.AddrPort) (*status, error) {
	start := time.Now()
	conn, err := c.cfg.Dial(ctx, "tcp", at.String())
	if err != nil {
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return nil, errors.New("connection refused: not started, or already ended")
		case errors.Is(err, os.ErrDeadlineExceeded) || ctx.Err() != nil:
			return nil, &muteError{fmt.Sprintf("no answer in %s: host down, or a firewall", time.Since(start).Round(10*time.Millisecond))}
		case errors.Is(err, syscall.EHOSTUNREACH) || errors.Is(err, syscall.ENETUNREACH):
			return nil, &muteError{err.Error()}
		}
		return nil, err
	}
	defer func() { _ = conn.Close() }()
	f, err := c.ask(ctx, conn, TypeProbe, rank, c.rank, nil)
	if err != nil {
		if ctx.Err() != nil {
			return nil, &muteError{fmt.Sprintf("connected, but no answer in %s: stopped, or not ringcli", time.Since(start).Round(10*time.Millisecond))}
		}
		return nil, err
	}
	if f.Type != TypeState {
		return nil, fmt.Errorf("answered a probe with a %q frame", f.Type)
	}
	got, err := decode[status](f)
	if err != nil {
		return nil, err
	}
	return &got, nil
}
