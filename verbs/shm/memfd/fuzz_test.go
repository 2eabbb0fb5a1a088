package memfd

import (
	"bytes"
	"context"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// FuzzHub has a process of this user say anything: to a hub that it has dialled, or where
// it is dialled. Messages are cut from the bytes by their lengths; what is 'F' before one
// sends a descriptor along. The hub goes on, maps nothing that cannot be read in place,
// and keeps no descriptor.
func FuzzHub(f *testing.F) {
	say := func(messages ...message) (b []byte) {
		for _, m := range messages {
			text := m.encode()
			b = append(append(b, 'F', byte(len(text))), text...)
		}
		return b
	}
	for _, seed := range [][]byte{
		say(message{kind: kindMap, id: 1}, message{kind: kindMap, id: 1, writable: true}), say(message{kind: kindMap, id: 99}),
		say(hello(), message{kind: kindView, id: 1, length: 4096}), say(hello(), message{kind: kindView, id: 1, length: 1 << 62}),
		say(hello(), message{kind: kindRefused, id: 1, text: "no"}), say(hello(), message{kind: kindFreed, id: 1}, message{kind: kindView, id: 1}),
		say(message{kind: kindView, id: 1, length: 100}), say(hello(), message{kind: kindBye}), say(message{kind: kindRefused, text: "no"}), []byte("xxGET / HTTP/1.1\r\n\r\n"), nil,
	} {
		f.Add(false, seed)
		f.Add(true, seed)
	}
	fd, err := newMemfd(4096)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = unix.Close(fd) })
	utter := func(s *net.UnixConn, said []byte) {
		for len(said) >= 2 {
			n := min(int(said[1]), len(said)-2)
			var oob []byte
			if said[0] == 'F' {
				oob = unix.UnixRights(fd)
			}
			if _, _, err := s.WriteMsgUnix(said[2:][:n], oob, nil); err != nil {
				return
			}
			said = said[2+n:]
		}
	}
	f.Fuzz(func(t *testing.T, dialled bool, said []byte) {
		before := descriptorsOpen(t)
		t.Cleanup(func() {
			for deadline := time.Now().Add(10 * time.Second); descriptorsOpen(t) > before; time.Sleep(time.Millisecond) {
				if time.Now().After(deadline) {
					t.Errorf("%d descriptors, %d before", descriptorsOpen(t), before)
					return
				}
			}
		})
		h, err := Listen(randomKey())
		if err != nil {
			t.Fatal(err)
		}
		if dialled {
			k := impostor(t, func(s *net.UnixConn) {
				utter(s, said)
				_ = s.CloseWrite()
				_, _ = s.Read(make([]byte, 1)) // until it goes
			})
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			if p, err := h.Dial(ctx, k); err == nil {
				if addr, n, err := p.Map(ctx, 1, false); err == nil && (addr == 0 || n > 4096) {
					t.Errorf("a file of 4096 bytes is %d bytes at %#x", n, addr)
				}
				_ = p.Close()
			}
		} else {
			x := create(t, 100)
			said = bytes.Clone(said)
			for i := 0; i+2+16 <= len(said); i += 2 + int(said[i+1]) { // the arena by its number
				if said[i+2+8] == 1 {
					copy(said[i+2+8:], message{id: x.ID()}.encode()[8:16])
				}
			}
			s := stranger(t, h)
			utter(s, said)
			_ = s.CloseWrite()
			for {
				m, err := receive(s)
				if m.fd >= 0 {
					_ = unix.Close(m.fd)
				}
				if err != nil {
					break
				}
			}
			_ = s.Close()
			if err := x.Free(); err != nil {
				t.Error(err)
			}
		}
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
}
