package launch_test

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"
)

// manager is a process manager that speaks PMI-1, as Hydra answers.
type manager struct {
	ends []*os.File // the ranks'
	mu   sync.Mutex // guards the following
	keys map[string]string
	came []net.Conn // to the barrier
	done int        // have finalized
	left int        // answers to give to rank 0; -1: any number
	then func(*manager)
	own  []net.Conn
	wg   sync.WaitGroup
}

// newManager answers n ranks until they hang up.
func newManager(t *testing.T, n int) *manager {
	t.Helper()
	m := &manager{keys: map[string]string{}, left: -1}
	for range n {
		pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
		if err != nil {
			t.Fatal(err)
		}
		m.ends = append(m.ends, os.NewFile(uintptr(pair[0]), "rank"))
		file := os.NewFile(uintptr(pair[1]), "manager")
		own, err := net.FileConn(file) // it may be closed while it is read
		if err = errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		m.own = append(m.own, own)
	}
	for _, own := range m.own {
		m.wg.Go(func() { m.answer(own, n) })
	}
	return m
}

func (m *manager) answer(own net.Conn, n int) {
	defer func() { _ = own.Close() }()
	for in := bufio.NewScanner(own); in.Scan(); {
		f := map[string]string{}
		for _, word := range strings.Fields(in.Text()) {
			name, value, _ := strings.Cut(word, "=")
			f[name] = value
		}
		say := func(format string, args ...any) { _, _ = fmt.Fprintf(own, format+"\n", args...) } // who has hung up is gone
		m.mu.Lock()
		if own == m.own[0] && m.left == 0 {
			m.mu.Unlock()
			m.then(m)
			continue
		}
		m.left--
		switch f["cmd"] {
		case "init":
			say("cmd=response_to_init pmi_version=1 pmi_subversion=1 rc=0")
		case "get_maxes":
			say("cmd=maxes kvsname_max=256 keylen_max=64 vallen_max=1024")
		case "get_my_kvsname":
			say("cmd=my_kvsname kvsname=kvs_7_0")
		case "put":
			if len(f["value"]) > 1023 || len(f["key"]) > 63 || f["kvsname"] != "kvs_7_0" {
				say("cmd=put_result rc=-1 msg=too_long")
				break
			}
			m.keys[f["key"]] = f["value"]
			say("cmd=put_result rc=0 msg=success")
		case "get":
			if value, ok := m.keys[f["key"]]; ok {
				say("cmd=get_result rc=0 msg=success value=%s", value)
				break
			}
			say("cmd=get_result rc=-1 msg=key_%s_not_found value=unknown", f["key"])
		case "barrier_in":
			if m.came = append(m.came, own); len(m.came) == n {
				for _, each := range m.came {
					_, _ = fmt.Fprintln(each, "cmd=barrier_out")
				}
				m.came = nil
			}
		case "finalize":
			m.done++
			say("cmd=finalize_ack")
		}
		m.mu.Unlock()
	}
}

// finalized checks that all ranks have left in good order.
func (m *manager) finalized(t *testing.T) {
	t.Helper()
	m.wg.Wait()
	if m.done != len(m.ends) {
		t.Errorf("%d of %d ranks have finalized", m.done, len(m.ends))
	}
}

// limit has rank 0 get so many answers, and then something else each time.
func (m *manager) limit(answers int, then func(*manager)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.left, m.then = answers, then
}

func (m *manager) say(line string) { _, _ = fmt.Fprintln(m.own[0], line) }

func (m *manager) hangUp() { _ = m.own[0].Close() } // twice is no harm
