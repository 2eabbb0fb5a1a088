package launch

import (
	"bufio"
	"context"
	"crypto/rand"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"ringcli/configs/codes"
	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/calls"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/seal"
	"ringcli/trace"
)

// meeting is where ranks find each other: at rank 0, which speaks first, so that a caller
// knows whom it has reached before it says anything: torchrun's own store listens at
// MASTER_PORT, and then rank 0 does at the next.
//
//	rank r                     rank 0
//	   │ ◀─ greeting ──────────── │  who it is, for which job of how many ranks
//	   │ ── hello ──────────────▶ │  which rank it is, and with a token its proof
//	   │ ◀─ welcome ───────────── │  or why not; with a token its proof, sealed after it
//	   │ ── data ───────────────▶ │
//	   │ ◀─ who is awaited ────── │  now and then
//	   │ ◀─ everybody's data ──── │  or what has failed
type meeting struct {
	rank, size int
	hosts      []string // of which rank 0 has one, most likely the first
	port       int
	job        string
	token      *seal.Token
	taken      bool // somebody else listens at port, so the next is the first to try
}

// candidates are the ports that rank 0 tries and others look for it at.
const candidates = 8

const (
	// patience is how long whoever answers a call may take to say who it is.
	patience = 3 * time.Second
	// pause is between two rounds of calls: short enough that the last to start is found
	// at once.
	pause = 100 * time.Millisecond
	// notice is between two words of rank 0 about whom it waits for.
	notice = 500 * time.Millisecond
	// maxText bounds a message: what a million ranks say of themselves does not get here.
	maxText = 64 << 20
	// maxHello bounds what a stranger may say.
	maxHello = 4 << 10
)

const magic, version = "ringcli launch", 1

type (
	greeting struct {
		Magic   string `json:"magic"`
		Version int    `json:"version"`
		Job     string `json:"job"`
		Port    int    `json:"port"` // the one that is meant, whichever it is
		Size    int    `json:"size"`
		Nonce   []byte `json:"nonce"`
		Token   bool   `json:"token"`
	}
	hello struct {
		Rank  int    `json:"rank"`
		Host  string `json:"host"`
		PID   int    `json:"pid"`
		Nonce []byte `json:"nonce"`
		Proof []byte `json:"proof,omitempty"`
	}
	// word is anything said after that.
	word struct {
		Proof  []byte   `json:"proof,omitempty"`
		Data   []byte   `json:"data,omitempty"`
		All    [][]byte `json:"all,omitempty"`
		Awaits []int    `json:"awaits,omitempty"`
		Error  string   `json:"error,omitempty"`
		Usage  bool     `json:"usage,omitempty"` // of an error: bad usage
		// At is the address of rank 0 at which the caller has arrived.
		At netip.Addr `json:"at,omitzero"`
	}
)

// line is a connection on which JSON is spoken.
type line struct {
	net.Conn
	in *bufio.Reader
	at netip.Addr // of rank 0, from its welcome
}

func newLine(conn net.Conn) *line { return &line{Conn: conn, in: bufio.NewReaderSize(conn, maxHello)} }

func (l *line) say(what any) error {
	text, err := json.Marshal(what)
	if err == nil {
		_, err = l.Write(append(text, '\n'))
	}
	return err
}

// hear reads one message of at most so many bytes.
func (l *line) hear(into any, limit int) error {
	var text []byte
	for {
		part, err := l.in.ReadSlice('\n')
		text = append(text, part...)
		switch {
		case len(text) > limit:
			return fmt.Errorf("a message of more than %d bytes", limit)
		case err == nil:
			return json.Unmarshal(text, into)
		case !errors.Is(err, bufio.ErrBufferFull):
			return err
		}
	}
}

// until ends what a connection waits for with ctx. The function that it returns gives the
// connection back without a deadline.
func until(ctx context.Context, conn interface{ SetDeadline(time.Time) error }) (back func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		_ = conn.SetDeadline(time.Unix(1, 0)) // fails on a closed one only
	})
	return func() {
		if stop() {
			return
		}
		<-over // else it might be the last to set one
		_ = conn.SetDeadline(time.Time{})
	}
}

func (m *meeting) handshake(rank int, dialler, listener []byte) *seal.Handshake {
	h := &seal.Handshake{Version: version, Purpose: "launch " + m.job, Sender: rank}
	copy(h.Dialler[:], dialler)
	copy(h.Listener[:], listener)
	return h
}

func nonce() []byte {
	b := make([]byte, 32)
	_, _ = rand.Read(b) // never fails
	return b
}

func meet(ctx context.Context, m meeting) (Launcher, error) {
	if m.taken {
		m.port++
	}
	if m.rank == 0 {
		return m.listen(ctx)
	}
	return m.call(ctx)
}

// guest is a rank at rank 0.
type guest struct {
	meeting
	*line
	at      string     // of rank 0
	arrived netip.Addr // so, as rank 0 has it
}

func (g *guest) Rank() int { return g.rank }
func (g *guest) Size() int { return g.size }

// others is how many hosts besides the first are called in one round, at the same time.
const others = 16

// call looks for rank 0 until it is there: in each round at the first host, then at some of the
// others, by turns.
func (m meeting) call(ctx context.Context) (Launcher, error) {
	last := errors.New("it was not called yet") // of the first host and port, which are meant
	warned := false
	for at := 1; ; {
		l, address, err := m.callHost(ctx, m.hosts[0])
		if err == nil {
			return &guest{m, l, address, l.at}, nil
		}
		if usage.Is(err) {
			return nil, err
		}
		if ctx.Err() == nil { // else it is no news
			last = err
		}
		if _, unknown := errors.AsType[*net.DNSError](err); unknown && !warned {
			warned = true
			trace.Warn(trace.Bootstrap, fmt.Sprintf("waiting for the address of rank 0's host: %v", err))
		}
		found := make([]*guest, min(others, len(m.hosts)-1))
		refused := make([]error, len(found))
		var round sync.WaitGroup
		for i := range found {
			host := m.hosts[1+(at-1+i)%(len(m.hosts)-1)]
			round.Go(func() {
				if l, address, err := m.callHost(ctx, host); err == nil {
					found[i] = &guest{m, l, address, l.at}
				} else if usage.Is(err) {
					refused[i] = err
				}
			})
		}
		round.Wait()
		at += len(found)
		if i := slices.IndexFunc(found, func(g *guest) bool { return g != nil }); i >= 0 {
			return found[i], nil // there is one rank 0 of a job
		}
		if err := errors.Join(refused...); err != nil {
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("rank %d of %d: awaited rank 0 at %s, or one of the %d ports after it: nobody there speaks for this job (%w): %w",
				m.rank, m.size, m.places(), candidates-1, last, context.Cause(ctx))
		case <-time.After(pause):
		}
	}
}

// places says where rank 0 is looked for.
func (m meeting) places() string {
	first := net.JoinHostPort(m.hosts[0], strconv.Itoa(m.port))
	if len(m.hosts) == 1 {
		return first
	}
	return fmt.Sprintf("%s (and on the other %d hosts of the job)", first, len(m.hosts)-1)
}

// callHost calls the ports of a host, at each of its addresses. The error is that of the first
// port, but for one of usage.
func (m meeting) callHost(ctx context.Context, host string) (l *line, address string, err error) {
	addrs, err := hosts.Lookup(ctx, host)
	if err != nil {
		return nil, "", fmt.Errorf("%q has no address: %w", host, err)
	}
	var first []error // of each address
	for _, a := range addrs {
		for i := range candidates {
			if m.port+i > 65535 {
				break
			}
			address = net.JoinHostPort(a.String(), strconv.Itoa(m.port+i))
			l, err := m.try(ctx, address)
			if err == nil || usage.Is(err) {
				return l, address, err
			}
			if i == 0 {
				first = append(first, err)
			}
			if _, call := errors.AsType[*net.OpError](err); call && !errors.Is(err, syscall.ECONNREFUSED) && len(addrs) > 1 {
				break // nobody answers there, nor at the other ports
			}
		}
	}
	return nil, "", hosts.Joined(first)
}

// try calls one port. Errors of usage are rank 0's answer; others are that nobody answers,
// or somebody else.
func (m *meeting) try(ctx context.Context, at string) (l *line, err error) {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", at)
	if err != nil {
		return nil, err
	}
	l = newLine(conn)
	defer func() {
		if err != nil {
			_ = conn.Close()
		}
	}()
	defer until(ctx, l)()
	var g greeting
	if err := l.hear(&g, maxHello); err != nil || g.Magic != magic {
		return nil, fmt.Errorf("%s: another program listens there", at)
	}
	switch {
	case g.Job != m.job, g.Port != m.port:
		return nil, fmt.Errorf("%s: rank 0 of another job listens there: %q of port %d, and this one is %q", at, g.Job, g.Port, m.job)
	case g.Version != version:
		return nil, usage.Codedf(codes.Version, "rank 0 at %s speaks version %d, and this rank %d: install the same ringcli on all nodes", at, g.Version, version)
	case g.Size != m.size:
		return nil, usage.Codedf(codes.List, "rank 0 at %s is one of %d ranks, and rank %d one of %d: give all the same --world-size", at, g.Size, m.rank, m.size)
	case g.Token != (m.token != nil):
		return nil, usage.Codedf(codes.Token, "rank 0 at %s and rank %d: one has a token, the other has none: give all ranks the same --token-file or RINGCLI_TOKEN", at, m.rank)
	}
	host, _ := os.Hostname()
	h := hello{Rank: m.rank, Host: host, PID: os.Getpid(), Nonce: nonce()}
	shake := m.handshake(m.rank, h.Nonce, g.Nonce)
	if m.token != nil {
		h.Proof = m.token.Proof(shake, seal.Dialler)
	}
	var w word
	if err := l.say(h); err != nil {
		return nil, err
	}
	if err := l.hear(&w, maxHello); err != nil {
		return nil, fmt.Errorf("%s: rank 0 has not answered: %w", at, err)
	}
	if w.Error != "" {
		return nil, usage.Codedf(codes.List, "rank 0 at %s: %s", at, w.Error)
	}
	if m.token != nil {
		if subtle.ConstantTimeCompare(w.Proof, m.token.Proof(shake, seal.Listener)) != 1 {
			return nil, usage.Codedf(codes.Token, "who listens at %s does not have this rank's token", at)
		}
		sealed, err := m.token.Seal(conn, shake, seal.Dialler, seal.Listener)
		l = newLine(sealed)
		l.at = w.At
		return l, err
	}
	l.at = w.At
	return l, nil
}

func (g *guest) AllGather(ctx context.Context, own []byte) ([][]byte, error) {
	defer until(ctx, g)()
	var awaits []int
	err := g.say(word{Data: own})
	for err == nil {
		var w word
		if err = g.hear(&w, maxText); err != nil {
			break
		}
		switch {
		case w.Usage:
			return nil, usage.Errorf("rank 0 at %s: %s", g.at, w.Error)
		case w.Error != "":
			return nil, fmt.Errorf("rank 0 at %s: %s", g.at, w.Error)
		case len(w.All) == g.size:
			return w.All, nil
		}
		awaits = w.Awaits
	}
	if ctx.Err() != nil {
		if len(awaits) > 0 {
			return nil, fmt.Errorf("rank %d of %d: awaited %s, of which rank 0 at %s has not heard: %w", g.rank, g.size, calls.Ranks(awaits), g.at, context.Cause(ctx))
		}
		return nil, fmt.Errorf("rank %d of %d: awaited rank 0 at %s to say who the others are: %w", g.rank, g.size, g.at, context.Cause(ctx))
	}
	if errors.Is(err, io.EOF) {
		err = errors.New("it has hung up: it has ended")
	}
	return nil, fmt.Errorf("rank %d of %d: awaited rank 0 at %s to say who the others are: %w", g.rank, g.size, g.at, err)
}

func (g *guest) Barrier(ctx context.Context) error {
	_, err := g.AllGather(ctx, nil)
	return err
}
