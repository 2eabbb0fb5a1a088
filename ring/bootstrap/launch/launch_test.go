package launch_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"ringcli/configs/usage"
	"ringcli/ring/bootstrap/hosts"
	"ringcli/ring/bootstrap/launch"
	"ringcli/ring/bootstrap/seal"
)

// asRank has the test binary be one rank of the conformance test, of that kind of launcher,
// with the directory in which the ranks leave their marks.
const asRank, marks = "RINGTEST_LAUNCH", "RINGTEST_LAUNCH_MARKS"

// Of a launcher, conform asks again and again; hung is when it has hung.
const hung = 50 * time.Second

func TestMain(m *testing.M) {
	if kind := os.Getenv(asRank); kind != "" {
		if run, is := keeping[kind]; is {
			os.Exit(run())
		}
		os.Exit(runRank(kind))
	}
	os.Exit(m.Run())
}

func runRank(kind string) int {
	ctx, cancel := context.WithTimeout(context.Background(), hung)
	defer cancel()
	l, err := open(ctx, kind)
	if err == nil {
		err = conform(ctx, l, os.Getenv(marks))
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	fmt.Printf("rank %d of %d conforms\n", l.Rank(), l.Size())
	return 0
}

func open(ctx context.Context, kind string) (launch.Launcher, error) {
	o := launch.Options{Kind: kind, Rank: -1}
	o.Rank, _ = strconv.Atoi(os.Getenv("RANK"))
	o.Size, _ = strconv.Atoi(os.Getenv("WORLD_SIZE"))
	if kind == launch.Slurm {
		o.Rank, _ = strconv.Atoi(os.Getenv("SLURM_PROCID"))
		o.Size, _ = strconv.Atoi(os.Getenv("SLURM_NTASKS"))
	}
	o.MasterAddr = os.Getenv("MASTER_ADDR")
	o.MasterPort, _ = strconv.Atoi(os.Getenv("MASTER_PORT"))
	if secret := os.Getenv("RINGTEST_TOKEN"); secret != "" {
		token, err := seal.New([]byte(secret))
		if err != nil {
			return nil, err
		}
		o.Token = token
	}
	return launch.Open(ctx, o)
}

// saying is what a rank says in a round, of any length and with any byte in it.
func saying(rank, round int) []byte {
	lengths := []int{0, 1, 100, 1023, 5000}
	sum := sha256.Sum256(fmt.Append(nil, rank, round))
	return bytes.Repeat(sum[:], 5000/len(sum)+1)[:lengths[(rank+round)%len(lengths)]]
}

// conform is what every launcher must do, for one rank.
func conform(ctx context.Context, l launch.Launcher, dir string) error {
	rank, size := l.Rank(), l.Size()
	if rank < 0 || rank >= size {
		return fmt.Errorf("rank %d of %d", rank, size)
	}
	for round := range 6 {
		all, err := l.AllGather(ctx, saying(rank, round))
		if err != nil {
			return err
		}
		if len(all) != size {
			return fmt.Errorf("rank %d, round %d: %d of %d have said something", rank, round, len(all), size)
		}
		for r, said := range all {
			if !bytes.Equal(said, saying(r, round)) {
				return fmt.Errorf("rank %d, round %d: rank %d has said %d bytes: expected %d others", rank, round, r, len(said), len(saying(r, round)))
			}
		}
	}
	for round := range 3 { // who passes a barrier sees what all have done before it
		mark := func(r int) string { return filepath.Join(dir, fmt.Sprintf("%d-%d", r, round)) }
		time.Sleep(time.Duration((rank+round)%size) * 20 * time.Millisecond)
		if err := os.WriteFile(mark(rank), nil, 0o600); err != nil {
			return err
		}
		if err := l.Barrier(ctx); err != nil {
			return err
		}
		for r := range size {
			if _, err := os.Stat(mark(r)); err != nil {
				return fmt.Errorf("rank %d has passed barrier %d before rank %d: %w", rank, round, r, err)
			}
		}
	}
	return l.Close()
}

// ranks starts n ranks of the conformance test, each with variables of its own.
func ranks(t *testing.T, n int, kind string, variables func(rank int) []string, files func(rank int) []*os.File) (outputs []string, errs []error) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	all := make([]*exec.Cmd, n)
	texts := make([]bytes.Buffer, n)
	for r := range all {
		c := exec.CommandContext(t.Context(), self)
		c.Env = append(clean(), asRank+"="+kind, marks+"="+dir, "GORACE=atexit_sleep_ms=0")
		c.Env = append(c.Env, variables(r)...)
		if files != nil {
			c.ExtraFiles = files(r)
		}
		c.Stdout, c.Stderr = &texts[r], &texts[r]
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		for _, f := range c.ExtraFiles {
			_ = f.Close() // the rank has it
		}
		all[r] = c
	}
	for r, c := range all {
		errs = append(errs, c.Wait())
		outputs = append(outputs, texts[r].String())
	}
	return outputs, errs
}

// clean is the environment without what launchers set.
func clean() []string {
	return slices.DeleteFunc(os.Environ(), func(e string) bool {
		for _, prefix := range []string{"PMI", "SLURM", "OMPI", "RANK=", "WORLD", "MASTER", "TORCH"} {
			if strings.HasPrefix(e, prefix) {
				return true
			}
		}
		return false
	})
}

func conformed(t *testing.T, outputs []string, errs []error) {
	t.Helper()
	for r, err := range errs {
		if want := fmt.Sprintf("rank %d of %d conforms\n", r, len(errs)); err != nil || outputs[r] != want {
			t.Errorf("rank %d: %v, %q: expected %q", r, err, outputs[r], want)
		}
	}
}

// ports is how many freePort has given.
var ports atomic.Int64

// freePort is a port that nobody has, and nobody else in this process nor the seven after it.
func freePort(t *testing.T) int {
	t.Helper()
	port, release, err := launch.Reserve(22000 + os.Getpid()%100*100 + int(ports.Add(10))%1000)
	if err != nil {
		t.Fatal(err)
	}
	release()
	return port
}

func TestConformance(t *testing.T) {
	const n = 4
	for _, token := range []string{"", "RINGTEST_TOKEN=nobody would guess this"} {
		t.Run("master"+token, func(t *testing.T) {
			port := freePort(t)
			out, errs := ranks(t, n, launch.Master, func(r int) []string {
				return []string{"MASTER_ADDR=127.0.0.1", fmt.Sprint("MASTER_PORT=", port), fmt.Sprint("RANK=", r), fmt.Sprint("WORLD_SIZE=", n), token}
			}, nil)
			conformed(t, out, errs)
		})
	}
	t.Run("slurm", func(t *testing.T) {
		port := freePort(t)
		out, errs := ranks(t, n, launch.Slurm, func(r int) []string {
			return []string{"SLURM_STEP_NODELIST=127.0.0.[1-2]", "SLURM_JOB_ID=7", "SLURM_STEP_ID=0", fmt.Sprintf("SLURM_STEP_RESV_PORTS=%d-%d", port, port+3),
				fmt.Sprint("SLURM_PROCID=", r), fmt.Sprint("SLURM_NTASKS=", n)}
		}, nil)
		conformed(t, out, errs)
	})
	t.Run("pmi", func(t *testing.T) {
		m := newManager(t, n)
		out, errs := ranks(t, n, launch.PMI, func(r int) []string {
			return []string{"PMI_FD=3", fmt.Sprint("PMI_RANK=", r), fmt.Sprint("PMI_SIZE=", n)}
		}, func(r int) []*os.File { return []*os.File{m.ends[r]} })
		conformed(t, out, errs)
		m.finalized(t)
	})
	for _, mpi := range []struct{ kind, program, options string }{
		{launch.PMIx, "mpirun.openmpi", "--allow-run-as-root --oversubscribe --bind-to none"},
		{launch.PMI, "mpirun.mpich", ""},
	} {
		t.Run(mpi.kind+" of "+mpi.program, func(t *testing.T) {
			if testing.Short() {
				t.Skip("short: needs " + mpi.program)
			}
			program, err := exec.LookPath(mpi.program)
			if err != nil {
				t.Skip(err)
			}
			self, err := os.Executable()
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*hung)
			defer cancel()
			c := exec.CommandContext(ctx, program, append(strings.Fields(mpi.options), "-np", fmt.Sprint(n), self)...)
			c.Env = append(clean(), asRank+"="+mpi.kind, marks+"="+t.TempDir(), "GORACE=atexit_sleep_ms=0", "TMPDIR="+short(t))
			out, err := c.CombinedOutput()
			for r := range n {
				if want := fmt.Sprintf("rank %d of %d conforms", r, n); err != nil || !strings.Contains(string(out), want) {
					t.Errorf("%v, %s: expected %q", err, out, want)
				}
			}
		})
	}
}

// short is a directory for sockets, whose paths have an end.
func short(t *testing.T) string {
	dir, err := os.MkdirTemp("/tmp", "rt")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// Each of these makes its own rank the launcher's.
func TestDetect(t *testing.T) {
	for _, name := range []string{"PMIX_NAMESPACE", "PMI_FD", "SLURM_STEP_ID", "SLURM_PROCID", "SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST", "SLURM_NODELIST"} {
		t.Setenv(name, "")
	}
	check := func(want string, o launch.Options) {
		t.Helper()
		if o.Kind == "" {
			o.Kind = launch.Auto
		}
		if got := o.Detect(); got != want {
			t.Errorf("%+v: %q: expected %q", o, got, want)
		}
	}
	check("", launch.Options{})
	check("", launch.Options{MasterAddr: "a"})
	check(launch.PMI, launch.Options{Kind: launch.PMI})
	t.Setenv("SLURM_PROCID", "0")
	t.Setenv("SLURM_JOB_NODELIST", "a")
	check("", launch.Options{}) // a batch script
	t.Setenv("SLURM_STEP_ID", "0")
	check(launch.Slurm, launch.Options{})
	t.Setenv("PMI_FD", "3")
	check(launch.PMI, launch.Options{})
	t.Setenv("PMIX_NAMESPACE", "x")
	check(launch.PMIx, launch.Options{})
	check(launch.Master, launch.Options{MasterAddr: "a", MasterPort: 1})
}

// What launchers set and cannot be read is an error that names it.
func TestUnreadable(t *testing.T) {
	for name, value := range map[string]string{
		"PMI_FD": "x", "PMI_RANK": "-1", "PMI_SIZE": "", "SLURM_STEP_RESV_PORTS": "12-", "SLURM_STEP_NODELIST": "a,,b",
	} {
		t.Run(name, func(t *testing.T) {
			kind := launch.PMI
			if strings.HasPrefix(name, "SLURM") {
				kind = launch.Slurm
			}
			for name, value := range map[string]string{"PMI_FD": "900", "PMI_RANK": "0", "PMI_SIZE": "1", "SLURM_STEP_NODELIST": "a", "SLURM_STEP_RESV_PORTS": ""} {
				t.Setenv(name, value)
			}
			t.Setenv(name, value)
			_, err := launch.Open(t.Context(), launch.Options{Kind: kind, Rank: 0, Size: 1})
			says := name
			if name == "SLURM_STEP_NODELIST" {
				says = "SLURM_STEP_NODELIST: server list \"a,,b\""
			}
			if !usage.Is(err) || !strings.Contains(fmt.Sprint(err), says) {
				t.Errorf("%v: expected an error of usage about %s", err, says)
			}
		})
	}
	t.Setenv("PMI_FD", "900")
	t.Setenv("PMI_RANK", "2")
	t.Setenv("PMI_SIZE", "2")
	_, err := launch.Open(t.Context(), launch.Options{Kind: launch.PMI})
	if want := "PMI_RANK is 2 and PMI_SIZE 2"; !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%v: expected %q", err, want)
	}
	t.Setenv("PMI_RANK", "1")
	_, err = launch.Open(t.Context(), launch.Options{Kind: launch.PMI})
	if want := "PMI_FD is 900, which is no open descriptor"; !usage.Is(err) || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%v: expected %q", err, want)
	}
	_, err = launch.Open(t.Context(), launch.Options{Kind: launch.Master, Rank: 2, Size: 2, MasterAddr: "a", MasterPort: 1})
	if want := "rank 2 of 2: expected 0 to 1"; !usage.Is(err) || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%v: expected %q", err, want)
	}
	_, err = launch.Open(t.Context(), launch.Options{Kind: launch.Master, Rank: 0, Size: 2, MasterAddr: "a"})
	if want := "master-port is 0: expected both"; !usage.Is(err) || !strings.Contains(fmt.Sprint(err), want) {
		t.Errorf("%v: expected %q", err, want)
	}
}

// A port that is held is nobody's but this process's.
func TestReserve(t *testing.T) {
	port, release, err := launch.Reserve(24000)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	next, releaseNext, err := launch.Reserve(port)
	if err != nil || next == port {
		t.Fatalf("%d, %v: expected another than %d", next, err, port)
	}
	releaseNext()
	for range 2 { // and again for the next ring
		for _, at := range []string{"127.0.0.1", ""} {
			ln, err := net.Listen("tcp", net.JoinHostPort(at, strconv.Itoa(port)))
			if err != nil {
				t.Fatal(err)
			}
			if _, _, err := launch.Reserve(65536); !usage.Is(err) {
				t.Errorf("%v: expected an error of usage", err)
			}
			if other, release, err := launch.Reserve(port); err != nil || other == port {
				t.Errorf("%d, %v: expected another than %d, where somebody listens", other, err, port)
			} else {
				release()
			}
			if err := ln.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// told is a launcher whose ranks say what a test wants.
type told struct {
	rank, size int
	all        [][]byte
	barrier    error
}

func (f *told) Rank() int                     { return f.rank }
func (f *told) Size() int                     { return f.size }
func (f *told) Close() error                  { return nil }
func (f *told) Barrier(context.Context) error { return f.barrier }
func (f *told) AllGather(_ context.Context, own []byte) ([][]byte, error) {
	return append([][]byte{own}, f.all...), nil
}

// Ranks that say the same of themselves are named, with what says so.
func TestGatherRefuses(t *testing.T) {
	for want, other := range map[string]string{
		"(index from env RANK) and on host b (index from flag --index), say that they are rank 0": `{"rank":0,"name":"b","from":"flag --index"}`,
		"(index from env RANK) and on host b, say":                                                `{"rank":0,"name":"b"}`,
		"says that it is rank 2 (index from env RANK): expected 0 to 1":                           `{"rank":2,"name":"b","from":"env RANK"}`,
		"rank 1 says of itself cannot be read":                                                    `{`,
		"host b, rank 1, has no address but loopb":                                                `{"rank":1,"name":"b","host":"elsewhere"}`,
	} {
		l := &told{size: 2, all: [][]byte{[]byte(other)}}
		_, err := launch.Gather(t.Context(), l, launch.Self{Rank: 0, From: "env RANK", Port: 18600})
		if !usage.Is(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v: expected an error of usage with %q", other, err, want)
		}
	}
	gone := errors.New("gone")
	if _, err := launch.Gather(t.Context(), &told{size: 1, barrier: gone}, launch.Self{Rank: -1, Port: 18600}); !errors.Is(err, gone) {
		t.Errorf("%v: expected what the barrier says", err)
	}
}

func TestList(t *testing.T) {
	contact := func(host string, addrs ...string) launch.Contact {
		c := launch.Contact{Host: host, Name: host, Port: 18600}
		for _, a := range addrs {
			c.Addrs = append(c.Addrs, netip.MustParsePrefix(a))
		}
		return c
	}
	via := func(c launch.Contact, own, zero string) launch.Contact {
		c.Via, c.To = netip.MustParseAddr(own), netip.MustParseAddr(zero)
		return c
	}
	wanted := contact("b", "10.0.0.2/24")
	wanted.Advertise = "b.example.org"
	other := contact("a", "10.0.0.1/24")
	other.Port = 18601
	for _, c := range []struct {
		want string
		all  []launch.Contact
	}{
		{"127.0.0.1:18600,127.0.0.1:18601", []launch.Contact{contact("a", "10.0.0.1/24"), other}},
		{"10.0.0.1:18600,10.0.0.2:18600,10.0.0.1:18601", []launch.Contact{contact("a", "10.0.0.1/24"), contact("b", "10.0.0.2/24"), other}},
		{"10.0.0.1:18600,b.example.org:18600", []launch.Contact{contact("a", "10.0.0.1/24"), wanted}},
		// Each has a bridge of its own by the same address, and a network that the other lacks.
		{"10.0.0.1:18600,10.0.0.2:18600", []launch.Contact{
			contact("a", "192.168.7.1/24", "172.17.0.1/16", "10.0.0.1/24"), contact("b", "172.17.0.1/16", "10.0.0.2/24", "192.168.8.1/24"),
		}},
		// Each has a bridge of its own by the same network, and reached rank 0 over another.
		{"10.9.0.1:18600,10.9.0.2:18600", []launch.Contact{
			contact("a", "172.17.0.2/16", "10.9.0.1/24"), via(contact("b", "172.17.0.3/16", "10.9.0.2/24"), "10.9.0.2", "10.9.0.1"),
		}},
		// A router lies between the addresses over which they meet.
		{"10.0.1.1:18600,10.0.2.1:18600", []launch.Contact{
			contact("a", "172.17.0.2/16", "10.0.1.1/24"), via(contact("b", "172.17.0.3/16", "10.0.2.1/24"), "10.0.2.1", "10.0.1.1"),
		}},
		// Both are behind bridges by the same address: what they meet over does not tell them apart.
		{"10.0.0.1:18600,10.0.0.2:18600,10.0.0.3:18600", []launch.Contact{
			contact("a", "10.0.0.1/24"), via(contact("b", "172.17.0.2/16", "10.0.0.2/24"), "172.17.0.2", "10.0.0.1"), via(contact("c", "172.17.0.2/16", "10.0.0.3/24"), "172.17.0.2", "10.0.0.1"),
		}},
		// No network has both: a router may lie between the first of each.
		{"10.0.1.1:18600,10.0.2.1:18600", []launch.Contact{contact("a", "10.0.1.1/24"), contact("b", "10.0.2.1/24", "10.0.3.1/24")}},
		{"[fd00::1]:18600,[fd00::2]:18600", []launch.Contact{contact("a", "fd00::1/64"), contact("b", "fd00::2/64")}},
	} {
		got, _, err := launch.ListOf(c.all)
		if err != nil || got != c.want {
			t.Errorf("%+v: %s, %v: expected %s", c.all, got, err, c.want)
		}
		if _, err := hosts.Parse(got, 18600); err != nil {
			t.Error(err)
		}
	}
}

// Hosts go by their names, but for those that share one.
func TestNames(t *testing.T) {
	rank := func(name, host, address string) launch.Contact {
		return launch.Contact{Name: name, Host: host, Port: 18600, Addrs: []netip.Prefix{netip.MustParsePrefix(address)}}
	}
	_, names, err := launch.ListOf([]launch.Contact{
		rank("node7", "a", "10.0.0.1/24"), rank("node7", "a", "10.0.0.1/24"), rank("node8", "b", "10.0.0.2/24"),
		rank("box", "c", "10.0.0.3/24"), rank("box", "d", "10.0.0.4/24"), rank("box", "c", "10.0.0.3/24"), rank("", "e", "10.0.0.5/24"),
	})
	want := []string{"node7", "node7", "node8", "10.0.0.3", "10.0.0.4", "10.0.0.3", "10.0.0.5"}
	if err != nil || !slices.Equal(names, want) {
		t.Errorf("%v, %v: expected %v", names, err, want)
	}
	r, err := launch.Gather(t.Context(), &told{size: 1}, launch.Self{Rank: -1, Port: 18600})
	host, _ := os.Hostname()
	if err != nil || r.Own != 0 || r.List != "127.0.0.1:18600" || !slices.Equal(r.Names, []string{host}) {
		t.Errorf("%+v, %v: expected %s", r, err, host)
	}
}
