package transport

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/cli/transport/files"
	"ringcli/cli/transport/talk"
	"ringcli/ring/bootstrap"
	"ringcli/verbs/transport"
)

// hung is how long nothing takes that has not come to a stand.
const hung = 20 * time.Second

// callers are a listener of connections that this process makes.
type callers chan net.Conn

func (c callers) Accept() (net.Conn, error) {
	if conn, ok := <-c; ok {
		return conn, nil
	}
	return nil, net.ErrClosed
}
func (c callers) Close() error   { return nil }
func (c callers) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// said is a message.
type said struct {
	Version int             `json:"version"`
	Kind    string          `json:"kind"`
	Body    json.RawMessage `json:"body,omitempty"`
}

// stranger speaks as a client does.
type stranger struct {
	t *testing.T
	net.Conn
}

func (s stranger) say(kind string, body any) {
	b, err := json.Marshal(body)
	if err == nil {
		b, err = bootstrap.Encode("transport", 0, 1, 0, 1, said{talk.Version, kind, b})
	}
	if err != nil {
		s.t.Fatal(err)
	}
	_, _ = s.Write(b) // the server may have ended
}

// hear returns the body of a message, and whether it is of that kind.
func (s stranger) hear(kind string, into any) bool {
	for {
		f, err := bootstrap.ReadFrame(s)
		if err != nil {
			return false
		}
		var m said
		if err := json.Unmarshal(f.Payload, &m); err != nil {
			s.t.Errorf("%q: %v", f.Payload, err)
			return false
		}
		switch m.Kind {
		case "alive":
		case kind:
			if into == nil {
				return true
			}
			if err := json.Unmarshal(m.Body, into); err != nil {
				s.t.Errorf("%s %s: %v", kind, m.Body, err)
			}
			return true
		default:
			return false
		}
	}
}

func sumOf(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Whatever file a client asks for, and whatever it says of its own, nothing beside the
// directory that is served is sent or changed, and the server soon has time for the next.
func FuzzCopy(f *testing.F) {
	base := f.TempDir()
	served, outside, secret := filepath.Join(base, "served"), filepath.Join(base, "outside"), filepath.Join(base, "secret")
	text := []byte("a secret of 25 bytes size")
	lay := func(t testing.TB) {
		t.Helper()
		err := os.RemoveAll(served)
		for _, dir := range []string{served, filepath.Join(served, "sub"), outside} {
			if err == nil {
				err = os.MkdirAll(dir, 0o700)
			}
		}
		for name, size := range map[string]int{"file": 10, "sub/inner": 3, "cut" + files.Suffix: 5} {
			if err == nil {
				err = os.WriteFile(filepath.Join(served, name), make([]byte, size), 0o600)
			}
		}
		for name, to := range map[string]string{
			"link": "file", "dir": "sub", "loop": "loop", "out": "../secret", "away": "../outside", "new": "../outside/new", "root": "/",
			"abs": secret, "in" + files.Suffix: "file", "bad" + files.Suffix: "../secret", "fresh" + files.Suffix: "../outside/new",
		} {
			if err == nil {
				err = os.Symlink(to, filepath.Join(served, name))
			}
		}
		for _, name := range []string{"pipe", "piped" + files.Suffix} {
			if err == nil {
				err = unix.Mkfifo(filepath.Join(served, name), 0o600)
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(secret, text, 0o640); err != nil {
		f.Fatal(err)
	}
	lay(f)
	device, err := transport.New(transport.Options{Device: "shm"})
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { _ = device.Close() })
	for _, file := range []string{
		"file", "cut", "fresh", "in", "bad", "link", "out", "abs", "away/x", "away/", "dir/inner", "dir/", "loop", "new", "pipe", "piped", "root/etc/passwd",
		"../secret", "sub/../../secret", secret, "", "/", ".", "..", "sub/", "fi\x00le",
	} {
		f.Add(true, file, "x", int64(0), int64(0), uint32(0o644), "")
		f.Add(false, file, "x", int64(0), int64(0), uint32(0), "")
	}
	f.Add(true, "", "../../secret", int64(0), int64(0), ^uint32(0), "")
	f.Add(true, "", "..", int64(0), int64(0), uint32(0), "")
	f.Add(true, "cut", "", int64(5), int64(5), uint32(0o644), "")
	f.Add(true, "cut", "", int64(5), int64(5), uint32(0o644), "wrong")
	f.Add(true, "cut", "", int64(9), int64(1)<<62, uint32(0o644), "")
	f.Add(true, "cut", "", int64(-1), int64(-1), uint32(0o644), "")
	f.Add(false, "file", "", int64(0), int64(10), uint32(0), sumOf(make([]byte, 10)))
	f.Add(false, "file", "", int64(0), int64(-10), uint32(0), "")
	f.Fuzz(func(t *testing.T, put bool, file, name string, size, offset int64, mode uint32, sum string) {
		lay(t)
		root, err := os.OpenRoot(served)
		if err != nil {
			t.Fatal(err)
		}
		s := talk.Server{Name: "server:1", Timeout: 2 * hung, Refused: func(net.Addr, error) {}, Handle: func(c *talk.Conn) error {
			return (&server{root: root}).copyFor(c, &files.Copy{Talk: c, Transport: device})
		}}
		conns, over := make(callers, 1), make(chan struct{})
		go func() {
			_ = s.Serve(context.Background(), conns) // it ends with its callers
			close(over)
		}()
		near, far := net.Pipe()
		_ = far.SetDeadline(time.Now().Add(hung))
		conns <- near
		c := stranger{t, far}
		c.say("hello", talk.Hello{Name: "client:2", Purpose: purposeCopy})
		var who talk.Hello
		if !c.hear("welcome", &who) {
			t.Fatal("it is not welcome")
		}
		close(conns)
		if put {
			c.put(request{file, name}, size, offset, mode, sum)
		} else {
			c.get(request{file, name}, offset, sum)
		}
		_ = far.Close()
		select {
		case <-over:
		case <-time.After(hung):
			t.Fatalf("put %t %q: the server does not end", put, file)
		}
		if err := root.Close(); err != nil {
			t.Error(err)
		}
		info, err := os.Lstat(secret)
		there, err2 := os.ReadFile(secret)
		if err != nil || err2 != nil || info.Mode() != 0o640 || string(there) != string(text) {
			t.Errorf("put %t %q %q: the secret is %q, %v, %v, %v", put, file, name, there, info, err, err2)
		}
		for dir, want := range map[string][]string{base: {"outside", "secret", "served"}, outside: nil} {
			var names []string
			entries, err := os.ReadDir(dir)
			for _, e := range entries {
				names = append(names, e.Name())
			}
			if err != nil || !slices.Equal(names, want) {
				t.Errorf("put %t %q %q: %s has %q, %v", put, file, name, dir, names, err)
			}
		}
	})
}

// put offers a file, of which no data comes; an empty sum stands for the right one.
func (s stranger) put(r request, size, offset int64, mode uint32, sum string) {
	s.say(kindPut, r)
	s.say("offer", map[string]any{"size": size, "mode": mode, "credit": transport.RemoteBuffer{}.String()})
	var have struct {
		Bytes  int64  `json:"bytes"`
		SHA256 string `json:"sha256"`
	}
	if !s.hear("have", &have) {
		return
	}
	s.say("from", map[string]any{"offset": offset})
	if size < 0 {
		s.t.Errorf("%d bytes are taken", size)
	}
	right := have.SHA256
	if offset != have.Bytes {
		offset, right = 0, sumOf(nil)
	}
	if offset < size {
		return
	}
	if sum == "" {
		sum = right
	}
	s.say("digest", map[string]any{"sha256": sum})
	if s.hear("done", nil) && sum != right {
		s.t.Errorf("%q is whole with the digest %q: expected %q", r.File, sum, right)
	}
}

// get asks for a file, of which some is said to be there.
func (s stranger) get(r request, offset int64, sum string) {
	s.say(kindGet, r)
	var offered struct {
		Size int64 `json:"size"`
	}
	if !s.hear("offer", &offered) {
		return
	}
	if !slices.Contains([]int64{10, 5, 3}, offered.Size) {
		s.t.Errorf("a file of %d bytes is sent for %q", offered.Size, r.File)
	}
	s.say("have", map[string]any{"bytes": offset, "sha256": sum, "slots": transport.RemoteBuffer{}.String()})
	var from struct {
		Offset int64 `json:"offset"`
	}
	if !s.hear("from", &from) {
		return
	}
	if from.Offset < 0 || from.Offset > offered.Size {
		s.t.Errorf("it begins at %d of %d", from.Offset, offered.Size)
	}
	if from.Offset < offered.Size {
		return
	}
	s.say("done", nil)
}
