// Package files copies a file over a transport, with a checksum of all of it, and goes on
// where a copy was cut off.
//
//	sender                                   receiver
//	   │ ── offer (size, mode) ─────────────▶ │
//	   │ ◀─ have (bytes and their SHA-256) ── │  of a copy that was cut off
//	   │ ── from (offset) ──────────────────▶ │  those, if the sender's begin likewise, else 0
//	   │ ══ writes that notify ═════════════▶ │  into slots, by turns
//	   │ ◀═ empty ones ══════════════════════ │  each gives a slot back
//	   │ ── digest (SHA-256 of all) ────────▶ │
//	   │ ◀─ done ──────────────────────────── │  the same, on the disk, with its name
//
// Single lines go over TCP, double ones over the transport.
package files

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"time"

	"ringcli/cli/transport/talk"
	"ringcli/configs/codes"
	"ringcli/verbs/transport"
)

const (
	// slotSize is what one write carries: enough that notifications cost nothing beside it.
	slotSize = 1 << 20
	// slots are in flight at most: what the disk or the network stands still for a moment.
	slots = 8
)

// The messages.
const (
	kindOffer  = "offer"
	kindHave   = "have"
	kindFrom   = "from"
	kindDigest = "digest"
	kindDone   = "done"
)

type (
	offer struct {
		Size   int64                  `json:"size"`
		Mode   fs.FileMode            `json:"mode"`
		Credit transport.RemoteBuffer `json:"credit"` // of the empty writes
	}
	have struct {
		Bytes  int64                  `json:"bytes"`
		SHA256 string                 `json:"sha256"`
		Slots  transport.RemoteBuffer `json:"slots"`
	}
	from struct {
		Offset int64 `json:"offset"`
	}
	digest struct {
		SHA256 string `json:"sha256"`
	}
)

// Copy is one copy.
type Copy struct {
	Talk      *talk.Conn
	Transport *transport.Transport
	// Progress is told of what is there, of how much. It may be nil.
	Progress func(bytes, size int64)

	// What came of it.
	Size   int64
	From   int64 // bytes that were there before
	SHA256 string

	memory *transport.Memory
	hash   hash.Hash
	sums   chan sum
}

func (c *Copy) ctx() context.Context { return c.Talk.Context() }

// await waits for a message of the peer, which may take long to read a file, and lives.
func (c *Copy) await(kind string, into any) error {
	got, read, err := c.Talk.Next()
	if err != nil {
		return err
	}
	if got != kind {
		return fmt.Errorf("%s sends %q, expected %q: run the same ringcli at both ends", c.Talk.Name(), got, kind)
	}
	return read(into)
}

// begin allocates the slots, and has a goroutine hash until the returned function is called.
func (c *Copy) begin() (end func() error, err error) {
	if c.memory, err = c.Transport.Alloc(slots * slotSize); err != nil {
		return nil, err
	}
	c.hash, c.sums = sha256.New(), make(chan sum, slots)
	over := make(chan struct{})
	go func() {
		defer close(over)
		for s := range c.sums {
			_, _ = c.hash.Write(s.data) // a hash never fails
			close(s.done)
		}
	}()
	return func() error {
		close(c.sums)
		<-over
		return c.memory.Close()
	}, nil
}

// sum is data that is hashed meanwhile.
type sum struct {
	data []byte
	done chan struct{}
}

// add has data hashed; it may be overwritten once the channel is closed.
func (c *Copy) add(data []byte) <-chan struct{} {
	s := sum{data, make(chan struct{})}
	c.sums <- s
	return s.done
}

// prefix hashes the first bytes of a file, and leaves it behind them.
func (c *Copy) prefix(f io.ReadSeeker, n int64) (string, error) {
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return "", err
	}
	c.hash.Reset()
	_, err := io.CopyN(c.hash, ended{c.ctx(), f}, n)
	return hex.EncodeToString(c.hash.Sum(nil)), err
}

// ended is a reader that a context ends.
type ended struct {
	ctx context.Context
	r   io.Reader
}

func (e ended) Read(b []byte) (int, error) {
	if e.ctx.Err() != nil {
		return 0, context.Cause(e.ctx)
	}
	return e.r.Read(b)
}

func (c *Copy) tell(bytes int64) {
	if c.Progress != nil {
		c.Progress(bytes, c.Size)
	}
}

// slot is the memory of one, of which n bytes are meant.
func (c *Copy) slot(i, n int64) (transport.View, error) {
	return c.memory.View(uint64(i%slots*slotSize), uint64(n))
}

// Send sends a file that is open.
func (c *Copy) Send(f *os.File) (err error) {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return fmt.Errorf("%s is no regular file", f.Name())
	}
	end, err := c.begin()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	c.Size = info.Size()
	if err := c.Talk.Send(kindOffer, offer{c.Size, info.Mode().Perm(), c.memory.Remote()}); err != nil {
		return err
	}
	var there have
	if err := c.await(kindHave, &there); err != nil {
		return err
	}
	if there.Bytes < 0 || there.Bytes > c.Size {
		there.Bytes = 0
	}
	same, err := c.prefix(f, there.Bytes)
	if err != nil {
		return err
	}
	if c.From = there.Bytes; same != there.SHA256 {
		c.From = 0
		if _, err := c.prefix(f, 0); err != nil {
			return err
		}
	}
	if err := c.Talk.Send(kindFrom, from{c.From}); err != nil {
		return err
	}
	if err := c.stream(f, there.Slots); err != nil {
		return err
	}
	c.SHA256 = hex.EncodeToString(c.hash.Sum(nil))
	if err := c.Talk.Send(kindDigest, digest{c.SHA256}); err != nil {
		return err
	}
	return c.await(kindDone, nil)
}

// stream sends what is left of the file, slot by slot.
func (c *Copy) stream(f *os.File, to transport.RemoteBuffer) error {
	var written [slots]*transport.Future
	var hashed [slots]<-chan struct{}
	wait := func(i int64) error { // for a slot
		if written[i%slots] == nil {
			return nil
		}
		<-hashed[i%slots]
		return written[i%slots].Wait(c.ctx())
	}
	i := int64(0)
	for at := c.From; at < c.Size; i++ {
		if i >= slots {
			if err := c.Transport.WaitForWrite(c.ctx()).Wait(c.ctx()); err != nil {
				return c.cause(err)
			}
		}
		if err := wait(i); err != nil {
			return c.cause(err)
		}
		n := min(slotSize, c.Size-at)
		view, err := c.slot(i, n)
		if err != nil {
			return err
		}
		if _, err := io.ReadFull(f, view.Data()); err != nil {
			return fmt.Errorf("%s has become shorter than %d bytes while it was copied: %w", f.Name(), c.Size, err)
		}
		hashed[i%slots] = c.add(view.Data())
		written[i%slots] = c.Transport.Write(context.Background(), view, to.At(uint64(i%slots*slotSize)), true)
		at += n
		c.tell(at)
	}
	for last := max(0, i-slots); last < i; last++ {
		if err := wait(last); err != nil {
			return c.cause(err)
		}
	}
	return nil
}

// farewell is how long a peer that is lost, or has closed, may take to say why.
const farewell = 2 * time.Second

// cause is why the talk has ended, if it has, or is about to: the peer says better what it was
// than the transport does.
func (c *Copy) cause(err error) error {
	select {
	case <-c.ctx().Done():
		return context.Cause(c.ctx())
	case <-time.After(farewell):
		return err
	}
}

// Receive receives a file of a name below a directory.
func (c *Copy) Receive(root *os.Root, name string) (err error) {
	var offered offer
	if err := c.await(kindOffer, &offered); err != nil {
		return err
	}
	if offered.Size < 0 {
		return fmt.Errorf("%s offers %d bytes: run the same ringcli at both ends", c.Talk.Name(), offered.Size)
	}
	c.Size = offered.Size
	p, err := openPart(root, name)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.Close()) }()
	end, err := c.begin()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, end()) }()
	info, err := p.Stat()
	if err != nil {
		return err
	}
	there := have{Bytes: info.Size(), Slots: c.memory.Remote()}
	if there.Bytes > c.Size {
		there.Bytes = 0
	}
	if there.SHA256, err = c.prefix(p, there.Bytes); err != nil {
		return err
	}
	if err := c.Talk.Send(kindHave, there); err != nil {
		return err
	}
	var begins from
	if err := c.await(kindFrom, &begins); err != nil {
		return err
	}
	if begins.Offset != there.Bytes { // they differ
		begins.Offset = 0
		c.hash.Reset()
	}
	c.From = begins.Offset
	if err := p.restart(c.From); err != nil {
		return err
	}
	if err := c.take(p, offered.Credit); err != nil {
		return err
	}
	var sent digest
	if err := c.await(kindDigest, &sent); err != nil {
		return err
	}
	if c.SHA256 = hex.EncodeToString(c.hash.Sum(nil)); sent.SHA256 != c.SHA256 {
		err := codes.With(codes.WrongData, fmt.Errorf("wrong data: the SHA-256 of %s is %s at the sender, and %s of what has come: copy it again", name, sent.SHA256, c.SHA256))
		return errors.Join(err, p.remove()) // nobody knows which of it is wrong
	}
	if err := p.whole(offered.Mode); err != nil {
		return err
	}
	return c.Talk.Send(kindDone, nil)
}

// take writes what comes to the file, and gives the slots back.
func (c *Copy) take(p *part, credit transport.RemoteBuffer) error {
	none, err := c.memory.View(0, 0)
	if err != nil {
		return err
	}
	c.tell(c.From)
	for i, at := int64(0), c.From; at < c.Size; i++ {
		arrived := c.Transport.WaitForWrite(c.ctx())
		if err := arrived.Wait(c.ctx()); err != nil {
			return c.cause(err)
		}
		n := int64(arrived.Len())
		if n < 1 || n > min(slotSize, c.Size-at) {
			return fmt.Errorf("%s has written %d bytes where at most %d are left: run the same ringcli at both ends", c.Talk.Name(), n, min(slotSize, c.Size-at))
		}
		view, err := c.slot(i, n)
		if err != nil {
			return err
		}
		hashed := c.add(view.Data())
		_, err = p.Write(view.Data())
		<-hashed
		if err != nil {
			return err
		}
		at += n
		c.Transport.Write(context.Background(), none, credit, true) // the sender waits for it, or has all it needs
		c.tell(at)
	}
	return nil
}
