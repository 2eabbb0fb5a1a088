package repl

import (
	"io"
	"os"
	"testing"
)

// keyboard returns keys whose other end is written by the test.
func keyboard(t *testing.T) (k *keys, press func(string)) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	wait, err := newWaiter(int(r.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	k = &keys{waiter: wait}
	t.Cleanup(func() {
		_ = k.Close()
		_ = r.Close()
		_ = w.Close()
		_ = wait.close()
	})
	return k, func(text string) {
		t.Helper()
		if _, err := io.WriteString(w, text); err != nil {
			t.Fatal(err)
		}
	}
}

// next checks the next keys.
func (k *keys) next(t *testing.T, want string) {
	t.Helper()
	for i := range len(want) {
		var b [100]byte
		n, err := k.Read(b[:])
		if n != 1 || err != nil || b[0] != want[i] {
			t.Fatalf("key %d of %q: got %q, %v", i, want, b[:n], err)
		}
	}
}

func TestKeysStopAtTheEndOfALine(t *testing.T) {
	k, press := keyboard(t)
	press("a\rb\x03c")
	got := make(chan byte, 10)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		var b [1]byte
		for {
			if _, err := k.Read(b[:]); err != nil {
				return
			}
			got <- b[0]
		}
	}()
	k.begin()
	for _, want := range []byte{'a', '\r'} {
		if key := <-got; key != want {
			t.Fatalf("got %q, want %q", key, want)
		}
	}
	k.judge(true) // a line; what follows is for the next
	k.call()
	if len(got) > 0 {
		t.Errorf("got %q between lines", <-got)
	}
	k.begin()
	for _, want := range []byte{'b', '\x03'} {
		if key := <-got; key != want {
			t.Fatalf("got %q, want %q", key, want)
		}
	}
	k.judge(false) // in a search: the line goes on
	for _, want := range []byte{'c', wakeKey} {
		if key := <-got; key != want {
			t.Fatalf("got %q, want %q", key, want)
		}
	}
	if err := k.Close(); err != nil {
		t.Error(err)
	}
	<-ended
}

func TestWakeKeyAndEscapeSequences(t *testing.T) {
	k, press := keyboard(t)
	k.begin()
	press("\x1b[1;5Dx\x00\x1ey")
	k.next(t, "\x1b[")
	k.call() // the rest of the sequence is there
	k.next(t, "1;5Dxy\x1e")
	press("\x1b[")
	k.next(t, "\x1b[")
	k.call() // it is not: the first is lost
	k.next(t, "\x1e\x1e")
	press("\x1b")
	k.next(t, "\x1b")
	k.call()
	k.next(t, "\x1e")
	press("z\x1b[\rq") // Enter is part of a broken sequence, no end of a line
	k.next(t, "z\x1b[\rq")
}

func TestKeysAtTheEnd(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	wait, err := newWaiter(int(r.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = wait.close() }()
	k := &keys{waiter: wait}
	k.begin()
	if _, err := io.WriteString(w, "half"); err != nil {
		t.Fatal(err)
	}
	k.next(t, "half")
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	k.next(t, "\x1e")
	if now := k.state(); !now.open || !now.last || !now.eof {
		t.Error("the line is not given up")
	}
}
