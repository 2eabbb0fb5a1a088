package wire

import (
	"bytes"
	"errors"
	"io"
	"reflect"
	"strings"
	"sync"
	"testing"
)

func TestFrames(t *testing.T) {
	command := Command{Args: []string{"sh", "-c", "it's $HOME \x00\n"}, Env: []string{"A=b c"}, Dir: "/tmp"}
	want := []Frame{
		JSON(Start, 7, command),
		{Stdin, 7, []byte{}},
		{Stdout, 1<<32 - 1, bytes.Repeat([]byte{0xff, 0}, MaxData/2)},
		{Signal, 7, []byte{15}},
	}
	var b bytes.Buffer
	w := NewWriter(&b)
	for _, f := range want {
		if err := w.Write(f); err != nil {
			t.Fatal(err)
		}
	}
	for i, f := range want {
		got, err := Read(&b)
		if err != nil || !reflect.DeepEqual(got, f) {
			t.Fatalf("frame %d: %v id %d, %d bytes, %v; wrote %v id %d, %d bytes",
				i, got.Kind, got.ID, len(got.Data), err, f.Kind, f.ID, len(f.Data))
		}
		if i == 0 {
			var back Command
			if err := got.Into(&back); err != nil || !reflect.DeepEqual(back, command) {
				t.Errorf("got %+v, %v; wrote %+v", back, err, command)
			}
		}
	}
	if _, err := Read(&b); !errors.Is(err, io.EOF) {
		t.Errorf("at the end: %v, want EOF", err)
	}
}

func TestFramesThatAreNone(t *testing.T) {
	for _, c := range []struct {
		name, stream, want string
	}{
		{"a header cut short", "\x02\x00", "unexpected EOF"},
		{"data cut short", "\x02\x00\x00\x00\x01\x00\x00\x00\x04ab", "unexpected EOF"},
		{"no data at all", "\x02\x00\x00\x00\x01\x00\x00\x00\x04", "unexpected EOF"},
		{"a length beyond all bounds", "kernel panic: not syncing", "out of step"},
	} {
		if _, err := Read(strings.NewReader(c.stream)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q in it", c.name, err, c.want)
		}
	}
	if err := NewWriter(io.Discard).Write(Frame{Stdout, 1, make([]byte, MaxData+1)}); err == nil {
		t.Error("a frame larger than can be read was written")
	}
	if err := (Frame{Kind: Exit, Data: []byte("{")}).Into(&Outcome{}); err == nil {
		t.Error("half a JSON object was taken")
	}
}

// Frames of many goroutines arrive whole, and each goroutine's in order.
func TestFramesOfMany(t *testing.T) {
	var b bytes.Buffer
	w := NewWriter(&b)
	var writers sync.WaitGroup
	for id := range uint32(8) {
		writers.Go(func() {
			s := w.Stream(Stdout, id)
			for i := range 100 {
				if _, err := s.Write(bytes.Repeat([]byte{byte(i)}, int(id)*10+1)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	writers.Wait()
	next := map[uint32]byte{}
	for range 800 {
		f, err := Read(&b)
		if err != nil {
			t.Fatal(err)
		}
		if len(f.Data) != int(f.ID)*10+1 || f.Data[0] != next[f.ID] {
			t.Fatalf("id %d: %d bytes of %d, want %d of %d", f.ID, len(f.Data), f.Data[0], f.ID*10+1, next[f.ID])
		}
		next[f.ID]++
	}
}

func TestStreamSplits(t *testing.T) {
	var b bytes.Buffer
	data := bytes.Repeat([]byte("0123456789"), MaxData/4)
	if n, err := NewWriter(&b).Stream(Stderr, 3).Write(data); n != len(data) || err != nil {
		t.Fatal(n, err)
	}
	var got []byte
	for b.Len() > 0 {
		f, err := Read(&b)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, f.Data...)
	}
	if !bytes.Equal(got, data) {
		t.Error("the bytes have changed")
	}
}

func TestQueue(t *testing.T) {
	q := NewQueue()
	q.Put([]byte("one "))
	q.Put(nil)
	read := make(chan string)
	go func() {
		all, err := io.ReadAll(q)
		if err != nil {
			t.Error(err)
		}
		read <- string(all)
	}()
	q.Put([]byte("two"))
	q.Close()
	q.Put([]byte("late"))
	if got := <-read; got != "one two" {
		t.Errorf("read %q", got)
	}
}
