package transport

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"time"

	"ringcli/cli/command"
	"ringcli/cli/exit"
	"ringcli/cli/procfs"
	"ringcli/cli/session"
	"ringcli/configs/codes"
	"ringcli/ring/bootstrap/oob"
	"ringcli/trace"
	"ringcli/verbs/gpu"
	"ringcli/verbs/transport"
)

// purposeBench is that of clients.
const purposeBench = "bench"

// server serves clients, one at a time.
type server struct {
	settings
	s      *session.Session
	secret bool        // clients have shown the token
	gpu    *gpu.Device // that has the memory of a bench; nil: the host

	mu     sync.Mutex
	client string    // that is served; "" if there is none; guarded by mu
	since  time.Time // guarded by mu
}

// admit lets one client in at a time; another is told which one is served, and since when.
func (v *server) admit(from net.Addr, who oob.Hello) (leave func(), err error) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.client != "" {
		return nil, codes.With(codes.Busy, fmt.Errorf("busy: it serves %s, since %s (%s ago): wait until that has ended, or serve on another --tcp-port",
			v.client, v.since.UTC().Format("15:04:05 UTC"), time.Since(v.since).Round(time.Second)))
	}
	v.client, v.since = fmt.Sprintf("%s (%s), for %s", who.Name, from, who.Purpose), time.Now()
	return func() {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.client = ""
	}, nil
}

// runServe serves until it is interrupted.
func runServe(ctx context.Context, s *session.Session, call command.Call) (err error) {
	v := &server{settings: settingsOf(s), s: s}
	if v.gpu, err = gpuOf(wordServe, call.Flags); err != nil {
		return err
	}
	bind, err := bindOf(command.TextOf(call.Flags, "bind"))
	if err != nil {
		return err
	}
	token, _, err := s.Secrets.Token(s.Config)
	if err != nil {
		return err
	}
	v.secret = token != nil
	local := bind
	if bind.IsUnspecified() {
		local = netip.Addr{}
	}
	device, why, err := v.which(local)
	if err != nil {
		return fmt.Errorf("transport serve: %w", err)
	}
	listener, err := oob.Listen(ctx, bind, command.NumberOf(call.Flags, "tcp-port"))
	if err != nil {
		return fmt.Errorf("transport serve: %w", err)
	}
	r := ServeResult{
		Command: "transport serve", OK: true, Listen: listener.Addr().String(), Port: listener.Addr().(*net.TCPAddr).Port,
		Device: device, Why: why, Token: v.secret,
	}
	r.RDMA, r.RDMAWhy = transport.Supported()
	if err := errors.Join(s.Out.Print(r), s.Parent.Report(r)); err != nil {
		return errors.Join(err, listener.Close())
	}
	t := oob.Server{
		Protocol: Protocol, Hello: oob.Hello{Name: transport.ProcessName()}, Token: token, Timeout: v.Timeout, Admit: v.admit, Handle: v.handle,
		Refused: func(from net.Addr, err error) {
			trace.Warn(trace.Bootstrap, fmt.Sprintf("turned away %s: %v", from, err))
		},
	}
	return t.Serve(ctx, listener)
}

// which is the device that will be taken for a client that calls an address; each may get
// another, where that is not known.
func (o *settings) which(local netip.Addr) (device, why string, err error) {
	t, err := o.open(local)
	if err != nil {
		return "", "", err
	}
	device, why = t.Device()
	return device, why, t.Close()
}

// handle serves a client, and says so.
func (v *server) handle(c *oob.Conn) error {
	begun := time.Now()
	r := ServedResult{Command: "transport serve", OK: true, Client: c.Name(), Purpose: c.Peer.Purpose}
	err := v.serve(c, &r)
	if errors.Is(err, oob.ErrBye) {
		err = nil
	}
	r.Seconds = time.Since(begun).Seconds()
	if r.OK = err == nil; !r.OK {
		r.Error = err.Error()
	}
	_ = v.s.Out.Print(r) // whoever does not read it does not end the server
	return err
}

func (v *server) serve(c *oob.Conn, r *ServedResult) (err error) {
	if c.Peer.Purpose != purposeBench {
		return exit.Usagef("it calls for %q, expected %s: run the same ringcli at both ends", c.Peer.Purpose, purposeBench)
	}
	t, own, err := v.answer(c.Context(), c)
	if err != nil {
		return err
	}
	r.Device, r.Why = own.Device, own.Why
	defer func() { err = errors.Join(err, t.Close()) }()
	b := benched{t: t, c: c, gpu: v.gpu, secret: v.secret, timeout: v.Timeout}
	return coded(b.serve())
}

// What the client of a bench asks for, and is answered with the same words.
const (
	kindMemory = "memory" // so many bytes to write to and read from
	kindEcho   = "echo"   // each notifying write of so many bytes is to be sent back there
	kindStop   = "stop"   // that is over
	kindSettle = "settle" // so many bytes that were written are to be the GPU's
)

// memoryAsked and memoryGiven are the bodies of kindMemory, echoAsked is that of kindEcho.
type (
	memoryAsked struct {
		Bytes uint64 `json:"bytes"`
	}
	memoryGiven struct {
		Remote transport.RemoteBuffer `json:"remote"`
		GPU    string                 `json:"gpu,omitempty"` // that has it, and how it is reached
	}
	echoAsked struct {
		Bytes uint64                 `json:"bytes"`
		To    transport.RemoteBuffer `json:"to"`
	}
)

// benched is the server's end of a bench.
type benched struct {
	t       *transport.Transport
	c       *oob.Conn
	gpu     *gpu.Device
	secret  bool          // the client has shown the token
	timeout time.Duration // of one of its copies
	memory  *transport.Memory
	stop    context.CancelFunc // ends what runs; nil while nothing does
	running sync.WaitGroup
}

func (b *benched) serve() error {
	defer b.halt()
	for {
		kind, read, err := b.c.Next(b.c.Context())
		if err != nil {
			return err
		}
		switch kind {
		case kindMemory:
			err = b.give(read)
		case kindEcho:
			err = b.answer(read)
		case kindSettle:
			err = b.settle(read)
		case kindStop:
			b.begin(b.look)
			err = b.c.Send(kindStop, nil)
		default:
			err = fmt.Errorf("%s asks for %q: run the same ringcli at both ends", b.c.Name(), kind)
		}
		if err != nil {
			return err
		}
	}
}

// answer begins an echo.
func (b *benched) answer(read func(any) error) error {
	var asked echoAsked
	if err := read(&asked); err != nil {
		return err
	}
	if b.memory == nil {
		return errors.New("an echo is asked for before memory")
	}
	b.begin(func(ctx context.Context) { b.echo(ctx, asked) })
	return b.c.Send(kindEcho, nil)
}

// halt ends the echo or the looking, if there is one.
func (b *benched) halt() {
	if b.stop != nil {
		b.stop()
		b.running.Wait()
		b.stop = nil
	}
}

// begin has something run until halt.
func (b *benched) begin(do func(context.Context)) {
	b.halt()
	var ctx context.Context
	ctx, b.stop = context.WithCancel(b.c.Context())
	b.running.Go(func() { do(ctx) })
}

// lookEvery is how long one look for what comes lasts: one-sided requests end none.
const lookEvery = 5 * time.Millisecond

// look has this end poll while the client measures what it is not told of, as the passive end of
// `bench p2p` does: a device in software would sleep and be woken for each packet.
func (b *benched) look(ctx context.Context) {
	comes := b.t.WaitForWrite(ctx) // nothing does
	for ctx.Err() == nil && b.t.Err() == nil {
		short, cancel := context.WithTimeout(ctx, lookEvery)
		_ = comes.Wait(short)
		cancel()
	}
}

// give allocates memory for the client.
func (b *benched) give(read func(any) error) error {
	var asked memoryAsked
	if err := read(&asked); err != nil {
		return err
	}
	if b.memory != nil {
		return errors.New("memory is asked for again: expected that once")
	}
	available, known := procfs.AvailableMemory(os.DirFS("/"))
	if err := checkMemory(asked.Bytes, b.secret, available, known); err != nil {
		return err
	}
	m, err := alloc(b.c.Context(), b.t, b.gpu, asked.Bytes, b.timeout)
	if err != nil {
		return err
	}
	b.memory = m
	b.begin(b.look)
	given := memoryGiven{Remote: m.Remote()}
	if b.gpu != nil {
		given.GPU = m.Served()
	}
	return b.c.Send(kindMemory, given)
}

// settle has what was written be the GPU's, and what is read be that.
func (b *benched) settle(read func(any) error) error {
	var asked memoryAsked
	if err := read(&asked); err != nil {
		return err
	}
	if b.memory == nil || asked.Bytes > uint64(len(b.memory.Bytes())) {
		return fmt.Errorf("%d bytes are to be settled: expected at most as many as were asked for", asked.Bytes)
	}
	if err := through(b.c.Context(), b.memory, asked.Bytes); err != nil {
		return err
	}
	return b.c.Send(kindSettle, nil)
}

// echo sends back what comes, until the context ends. An error of the transport is the
// client's to see, too.
func (b *benched) echo(ctx context.Context, asked echoAsked) {
	view, err := b.memory.View(0, asked.Bytes)
	for err == nil {
		if err = b.t.WaitForWrite(ctx).Wait(ctx); err == nil {
			err = through(ctx, b.memory, asked.Bytes)
		}
		if err == nil {
			err = b.t.Write(context.Background(), view, asked.To, true).Wait(ctx)
		}
	}
}
