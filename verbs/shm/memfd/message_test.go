package memfd

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs/memory"
)

func TestMessage(t *testing.T) {
	for _, m := range []message{
		{kind: kindHello, length: 1 << 47, value: 1<<64 - 1, fd: -1},
		{kind: kindMap, writable: true, id: 1 << 63, fd: -1},
		{kind: kindRefused, id: 5, text: "why not", fd: -1},
	} {
		got, err := decode(m.encode())
		if err != nil || got != m {
			t.Errorf("%+v comes back as %+v, %v", m, got, err)
		}
	}
	long := message{kind: kindRefused, text: strings.Repeat("x", 2*maxBytes), fd: -1}.encode()
	if len(long) != maxBytes {
		t.Errorf("a long text makes a packet of %d bytes, want %d", len(long), maxBytes)
	}
	strange := message{kind: kindMap}.encode()
	strange[0]++
	for _, b := range [][]byte{nil, strange[:headerBytes-1], strange} {
		if _, err := decode(b); err == nil || !strings.Contains(err.Error(), "not a ringcli process") {
			t.Errorf("%d bytes: %v", len(b), err)
		}
	}
}

// stranger connects to a hub without being one.
func stranger(t *testing.T, h *Hub) *net.UnixConn {
	t.Helper()
	sock, err := net.DialUnix("unixpacket", nil, h.key.address())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = sock.Close() })
	_ = sock.SetDeadline(time.Now().Add(20 * time.Second))
	if m, err := receive(sock); err != nil || m.kind != kindHello {
		t.Fatalf("greeted with %+v, %v", m, err)
	}
	return sock
}

// With /proc, the descriptor of a view for reading is itself only for reading.
func TestReadOnlyDescriptor(t *testing.T) {
	sock, x := stranger(t, listen(t)), create(t, 100)
	for _, writable := range []bool{true, false} {
		if err := transmit(sock, message{kind: kindMap, id: x.ID(), writable: writable, fd: -1}); err != nil {
			t.Fatal(err)
		}
		m, err := receive(sock)
		if err != nil || m.kind != kindView || m.fd < 0 {
			t.Fatalf("answered with %+v, %v", m, err)
		}
		if flags, err := unix.FcntlInt(uintptr(m.fd), unix.F_GETFD, 0); err != nil || flags&unix.FD_CLOEXEC == 0 {
			t.Errorf("a descriptor that children inherit: flags %#x, %v", flags, err)
		}
		if err := unix.Ftruncate(m.fd, 0); err == nil {
			t.Error("a peer can shrink the arena")
		}
		block, err := memory.MapFile(m.fd, m.value, m.length, true)
		if writable != (err == nil) {
			t.Errorf("asked for writable=%t: mapping it writable: %v", writable, err)
		}
		_, _ = block.Free(), unix.Close(m.fd)
	}
}

// Whatever a stranger says, the hub drops it, keeps no descriptor of it and goes on.
func TestStrangerAtTheHub(t *testing.T) {
	h := listen(t)
	before := descriptorsOpen(t)
	fd, err := newMemfd(4096)
	if err != nil {
		t.Fatal(err)
	}
	for _, say := range []func(*net.UnixConn) error{
		func(s *net.UnixConn) error { _, err := s.Write([]byte("GET / HTTP/1.1\r\n\r\n")); return err },
		func(s *net.UnixConn) error { _, err := s.Write(make([]byte, 60000)); return err },
		func(s *net.UnixConn) error { return transmit(s, message{kind: 99, fd: -1}) },
		func(s *net.UnixConn) error { // with more descriptors than any message has
			_, _, err := s.WriteMsgUnix(message{kind: kindView, fd: -1}.encode(), unix.UnixRights(fd, fd, fd, fd, fd, fd, fd, fd), nil)
			return err
		},
	} {
		sock := stranger(t, h)
		if err := say(sock); err != nil {
			t.Fatal(err)
		}
		if m, err := receive(sock); !errors.Is(err, io.EOF) && !errors.Is(err, unix.ECONNRESET) {
			t.Errorf("answered with %+v, %v; want the end", m, err)
		}
		_ = sock.Close()
	}
	_ = unix.Close(fd)
	p, x := dial(t, h, h.key), create(t, 100)
	mapped(t, p, x.ID(), true)
	if err := errors.Join(p.Close(), x.Free()); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(20 * time.Second)
	for descriptorsOpen(t) != before { // the hub's ends close on their own
		if time.Now().After(deadline) {
			t.Fatalf("%d descriptors, want %d", descriptorsOpen(t), before)
		}
		time.Sleep(time.Millisecond)
	}
}

// impostor listens to a key and answers each dialler as told.
func impostor(t *testing.T, answer func(*net.UnixConn)) Key {
	t.Helper()
	k := randomKey()
	l, err := net.ListenUnix("unixpacket", k.address())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			sock, err := l.AcceptUnix()
			if err != nil {
				return
			}
			answer(sock)
			_ = sock.Close()
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-done
	})
	return k
}

func TestStrangerListens(t *testing.T) {
	h := listen(t)
	for _, c := range []struct {
		name, want string
		answer     func(*net.UnixConn)
	}{
		{"says nothing", "EOF", func(*net.UnixConn) {}},
		{"says something else", "not a ringcli process", func(s *net.UnixConn) { _, _ = s.Write([]byte("SSH-2.0-OpenSSH_9.2 and some more words")) }},
		{"speaks out of turn", "run one version", func(s *net.UnixConn) { _ = transmit(s, message{kind: kindFreed, fd: -1}) }},
		{"refuses", "because", func(s *net.UnixConn) { _ = transmit(s, message{kind: kindRefused, text: "because", fd: -1}) }},
	} {
		if _, err := h.Dial(within(t, 20*time.Second), impostor(t, c.answer)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("one that %s: %v", c.name, err)
		}
	}
}

func TestBadViews(t *testing.T) {
	h := listen(t)
	for _, c := range []struct {
		name, want string
		size       int64
		seal       bool
	}{
		{"not sealed", "not sealed", 8192, false},
		{"too short", "4096 bytes, want at least 8192", 4096, true},
	} {
		k := impostor(t, func(s *net.UnixConn) {
			_ = transmit(s, hello())
			if m, err := receive(s); err != nil || m.kind != kindMap {
				return
			}
			fd, err := unix.MemfdCreate("short", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
			if err != nil {
				return
			}
			_ = unix.Ftruncate(fd, c.size)
			if c.seal {
				_, _ = unix.FcntlInt(uintptr(fd), unix.F_ADD_SEALS, unix.F_SEAL_SHRINK)
			}
			_ = transmit(s, message{kind: kindView, id: 1, length: 8192, fd: fd})
			_, _ = receive(s) // until the dialler goes
		})
		p := dial(t, h, k)
		if _, _, err := p.Map(within(t, 20*time.Second), 1, false); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("a file that is %s: %v", c.name, err)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}
