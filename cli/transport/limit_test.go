package transport

import (
	"context"
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"ringcli/configs/usage"
	"ringcli/verbs/memory"
)

// What a server gives: without a token little, with one half of what is available, and no more
// than its most.
func TestCheckMemory(t *testing.T) {
	const mib, gib = 1 << 20, 1 << 30
	for _, c := range []struct {
		bytes, available uint64
		secret, known    bool
		want             []string // empty: it is given
	}{
		{64 * mib, 16 * gib, false, true, nil},
		{64*mib + 1, 16 * gib, false, true, []string{"67108865 bytes", "without a token", "64M", "--token-file", "--end"}},
		{64 * mib, 100 * mib, false, true, []string{"50M", "half", "--end"}},
		{64 * mib, 0, false, false, nil},
		{4 * gib, 8 * gib, true, true, nil},
		{4*gib + 1, 16 * gib, true, true, []string{"4294967297 bytes", "4G", "--end"}},
		{4 * gib, 8*gib - mib, true, true, []string{"4294967296 bytes", "4095M", "half"}},
		{1 << 63, 1 << 40, true, false, []string{"4G"}},
		{4 * gib, 0, true, false, nil},
		{1, 0, true, true, []string{"gives 0"}},
	} {
		err := checkMemory(c.bytes, c.secret, c.available, c.known)
		if (err == nil) != (c.want == nil) || err != nil && !usage.Is(err) {
			t.Errorf("%+v: %v", c, err)
		}
		for _, part := range c.want {
			if err != nil && !strings.Contains(err.Error(), part) {
				t.Errorf("%+v: %v: no %q", c, err, part)
			}
		}
	}
}

// ending is a context that ends after some looks at it.
type ending struct {
	context.Context
	looks int
	end   context.CancelCauseFunc
}

func (e *ending) Err() error {
	if e.looks--; e.looks < 0 {
		e.end(errGone)
	}
	return e.Context.Err()
}

var errGone = errors.New("the client has gone")

// The context ends the touching of pages, with its cause; those that follow are not touched.
func TestTouchEnds(t *testing.T) {
	const size = 32 * touchStep
	for looks, want := range map[int]int{0: 0, 3: 3 * touchStep, size: size} {
		block, err := memory.Alloc(size)
		if err != nil {
			t.Fatal(err)
		}
		if err := unix.Madvise(block.Bytes(), unix.MADV_NOHUGEPAGE); err != nil && !errors.Is(err, unix.EINVAL) {
			t.Fatal(err)
		}
		ctx, end := context.WithCancelCause(t.Context())
		if err := touch(&ending{ctx, looks, end}, block.Bytes()); (want < size) != errors.Is(err, errGone) || want == size && err != nil {
			t.Errorf("%d looks: %v", looks, err)
		}
		if got := resident(t, block.Bytes()); got != want {
			t.Errorf("%d looks: %d bytes are touched: expected %d", looks, got, want)
		}
		if err := block.Free(); err != nil {
			t.Error(err)
		}
		end(nil)
	}
}

// resident is how many bytes of whole pages the kernel has allocated.
func resident(t *testing.T, b []byte) (bytes int) {
	t.Helper()
	page := unix.Getpagesize()
	vec := make([]byte, len(b)/page)
	if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(memory.Addr(b)), uintptr(len(b)), uintptr(memory.Addr(vec))); errno != 0 {
		t.Fatal(errno)
	}
	for _, v := range vec {
		bytes += int(v&1) * page
	}
	return bytes
}
