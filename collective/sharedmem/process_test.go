package sharedmem

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs/memory"
)

// Ranks that are processes: the test binary runs itself again, with the number of
// the rank and the name of a job in its environment, and all boards and mappable
// buffers in one memfd that it inherits.

const (
	envJob, envRank, envSize, envArena, envArg = "DIRECT_JOB", "DIRECT_RANK", "DIRECT_SIZE", "DIRECT_ARENA", "DIRECT_ARG"

	inheritedFD = 3
)

// jobs are what a process may do.
var jobs = map[string]func(p *process) error{"stress": stressJob, "bench": benchJob, "stop": stopJob}

func TestMain(m *testing.M) {
	job := os.Getenv(envJob)
	if job == "" {
		os.Exit(m.Run())
	}
	p, err := join()
	if err == nil {
		err = jobs[job](p)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// process is a rank that is a process. The memfd has a page with what all need,
// the boards, and as many bytes of buffers for each rank.
type process struct {
	rank, size int
	arg        string
	all        []byte
	header     []line // one per rank: the address of all; then free ones
	arena      uint64 // address of the own mappable buffers
	arenaBytes uint64
	team       *Team
}

func worldBytes(size int, arena uint64) uint64 {
	return pageBytes + uint64(size)*(BoardSize(size)+arena)
}

// join maps the memfd and makes the team.
func join() (*process, error) {
	p := &process{arg: os.Getenv(envArg)}
	p.rank, _ = strconv.Atoi(os.Getenv(envRank))
	p.size, _ = strconv.Atoi(os.Getenv(envSize))
	p.arenaBytes, _ = strconv.ParseUint(os.Getenv(envArena), 10, 64)
	var err error
	p.all, err = unix.Mmap(inheritedFD, 0, int(worldBytes(p.size, p.arenaBytes)), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, err
	}
	base := memory.Addr(p.all)
	p.header = memory.Slice[line](base, pageBytes/lineBytes)
	boards := make([]uint64, p.size)
	for r := range boards {
		boards[r] = base + pageBytes + uint64(r)*BoardSize(p.size)
	}
	arenas := base + pageBytes + uint64(p.size)*BoardSize(p.size)
	p.arena = arenas + uint64(p.rank)*p.arenaBytes
	p.header[p.rank].store(base)
	p.team, err = New(Config{
		Rank: p.rank, Size: p.size, Boards: boards, Timeout: after(20 * time.Second),
		Map: func(peer int, _, addr, length uint64) (uint64, error) {
			offset := addr - p.header[peer].load()
			if offset > uint64(len(p.all)) || offset+length > uint64(len(p.all)) {
				return 0, fmt.Errorf("%#x is not in the memory of rank %d", addr, peer)
			}
			return base + offset, nil
		},
	})
	return p, err
}

// spawn runs a job in so many processes and returns what each printed, and its
// error.
func spawn(tb testing.TB, job, arg string, size int, arena uint64) (outputs []string, errs []error) {
	tb.Helper()
	fd, err := unix.MemfdCreate("sharedmem-test", unix.MFD_CLOEXEC)
	if err != nil {
		tb.Skipf("memfd_create: %v", err)
	}
	file := os.NewFile(uintptr(fd), "memfd")
	defer func() { _ = file.Close() }()
	if err := file.Truncate(int64(worldBytes(size, arena))); err != nil {
		tb.Fatal(err)
	}
	outputs, errs = make([]string, size), make([]error, size)
	var wg sync.WaitGroup
	for r := range size {
		wg.Go(func() {
			c := exec.Command(os.Args[0])
			c.Env = append(os.Environ(), envJob+"="+job, envArg+"="+arg, fmt.Sprintf("%s=%d", envRank, r),
				fmt.Sprintf("%s=%d", envSize, size), fmt.Sprintf("%s=%d", envArena, arena))
			c.ExtraFiles = []*os.File{file}
			var out, why bytes.Buffer
			c.Stdout, c.Stderr = &out, &why
			errs[r] = c.Run()
			if errs[r] != nil {
				errs[r] = fmt.Errorf("rank %d: %w: %s", r, errs[r], why.String())
			}
			outputs[r] = out.String()
		})
	}
	wg.Wait()
	return outputs, errs
}
