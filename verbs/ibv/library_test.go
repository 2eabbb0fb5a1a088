//go:build !nodl

package ibv

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"ringcli/verbs"
)

// says checks that an error is one line with all of these texts.
func says(t *testing.T, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one that speaks of %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not speak of %q", err, text)
		}
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than one line", err)
	}
}

func TestAbsentLibrary(t *testing.T) {
	_, err := open("libibverbs-that-is-not-there.so.1")
	says(t, err, "libibverbs-that-is-not-there.so.1", "cannot open shared object file", "libibverbs1", "ibverbs-providers")
}

// A library without the functions is named, and so is the function.
func TestWrongLibrary(t *testing.T) {
	_, err := open("libc.so.6")
	says(t, err, "libc.so.6 has no ibv_get_device_list of version IBVERBS_1.1", "libibverbs1")
}

func TestNoDevice(t *testing.T) {
	for _, c := range []struct {
		sight sight
		want  []string
	}{
		{sight{}, []string{"no RDMA device", "modprobe rdma_rxe", "rdma link add"}},
		{sight{container: true}, []string{"in this container", "network namespace"}},
		{sight{devices: []string{"mlx5_0", "rxe0"}}, []string{"mlx5_0, rxe0", "modprobe ib_uverbs"}},
		{sight{devices: []string{"rxe0"}, uverbs: []string{"uverbs0"}}, []string{"rxe0", "/dev/infiniband", "udev"}},
		{sight{devices: []string{"rxe0"}, uverbs: []string{"uverbs0"}, container: true}, []string{"--device=/dev/infiniband"}},
		{sight{devices: []string{"rxe0"}, uverbs: []string{"uverbs0"}, nodes: []string{"uverbs0"}}, []string{"rxe0", "uverbs0", "no driver", "ibverbs-providers"}},
	} {
		says(t, c.sight.none(), c.want...)
	}
}

func TestErrnoIsTold(t *testing.T) {
	for errno, want := range map[syscall.Errno]error{
		syscall.EINVAL: verbs.ErrInvalid, syscall.ENOMEM: verbs.ErrNoMemory, syscall.EBUSY: verbs.ErrBusy,
		syscall.ENODEV: verbs.ErrNoDevice, syscall.ETIMEDOUT: verbs.ErrTimeout,
	} {
		err := failed(errno, "do %s", "it")
		if !errors.Is(err, want) || !errors.Is(err, errno) {
			t.Errorf("%v is not %v and %v", err, want, errno)
		}
		says(t, err, "do it: ", errno.Error())
	}
	for r, want := range map[uintptr]syscall.Errno{0: 0, 22: syscall.EINVAL, uintptr(^uint32(21)): syscall.EINVAL} {
		if got := result(r); got != want {
			t.Errorf("%#x is %v, want %v", r, got, want)
		}
	}
}

const status = "Name:\tringcli\nVmLck:\t       0 kB\nVmPin:\t      48 kB\nCapPrm:\t0000000000000000\nCapEff:\t%s\n"

func TestMemlock(t *testing.T) {
	read := func(limit uint64, caps string) memlock {
		m := memlock{limit: limit, pageSize: 4096}
		m.read(strings.ReplaceAll(status, "%s", caps))
		return m
	}
	m := read(64<<10, "0000000000000000")
	if m.pinned != 48<<10 || m.exempt {
		t.Fatalf("read %+v, want 48 KiB pinned and no capability", m)
	}
	if got := m.tooMuch(4096, 4*4096); got != "" {
		t.Errorf("48 and 16 KiB fit 64, got %q", got)
	}
	// One byte more touches one page more, and so does a range that is not aligned.
	for _, r := range [][2]uint64{{4096, 4*4096 + 1}, {4097, 4 * 4096}} {
		got := m.tooMuch(r[0], r[1])
		for _, text := range []string{"limited to 64 KiB", "48 KiB are in use", "needs 20 KiB", "ulimit -l unlimited", "--ulimit memlock=-1"} {
			if !strings.Contains(got, text) {
				t.Errorf("%q does not speak of %q", got, text)
			}
		}
	}
	if got := m.state(); !strings.Contains(got, "limited to 64 KiB") {
		t.Errorf("after an ENOMEM: %q", got)
	}
	if m = read(64<<10, "0000000000004000"); !m.exempt || m.tooMuch(0, 1<<40) != "" {
		t.Errorf("CAP_IPC_LOCK exempts: %+v, %q", m, m.tooMuch(0, 1<<40))
	}
	if m = read(unix.RLIM_INFINITY, "0"); m.tooMuch(0, 1<<60) != "" || !strings.Contains(m.state(), "not limited") {
		t.Errorf("no limit: %q, %q", m.tooMuch(0, 1<<60), m.state())
	}
}
