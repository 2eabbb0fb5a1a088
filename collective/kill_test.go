package collective

import (
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"ringcli/verbs/verbstest"
)

// killsEnv is how many ranks TestKilledRank is to kill, if it is set.
const killsEnv = "RINGTEST_KILLS"

// killed is what became of one kill.
type killed struct {
	reports []time.Duration // from the kill to the error of each survivor
	exits   []time.Duration // to its end
}

// TestKilledRank kills a rank of two, three, four or nine that share memory, at a random
// moment of a stream of operations, or while the ranks get to know each other's
// memory. Those that are left report it in time and by its number, and end cleanly,
// and nothing of any of them stays behind.
func TestKilledRank(t *testing.T) {
	kills := 9
	if testing.Short() || verbstest.Race {
		kills = 3
	}
	if text := os.Getenv(killsEnv); text != "" {
		var err error
		if kills, err = strconv.Atoi(text); err != nil {
			t.Fatalf("%s=%q: expected a number", killsEnv, text)
		}
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	temporary := t.TempDir()
	before := traces(t)
	var all killed
	for i := range kills {
		n := [...]int{2, 3, 4, 2, 3, 4, 9}[i%7]
		device := shared0
		if i%4 == 3 {
			device = "" // chosen by neighbour, as usual
		}
		k := killRank(t, n, rng.IntN(n), device, i%5 == 4, rng, temporary)
		all.reports, all.exits = append(all.reports, k.reports...), append(all.exits, k.exits...)
		if t.Failed() {
			t.Fatalf("kill %d of %d", i+1, kills)
		}
	}
	if files, err := os.ReadDir(temporary); err != nil || len(files) > 0 {
		t.Errorf("left in the directory for temporary files: %v, %v", files, err)
	}
	if left := slices.DeleteFunc(traces(t), func(name string) bool { return slices.Contains(before, name) }); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
	slices.Sort(all.reports)
	slices.Sort(all.exits)
	last := len(all.reports) - 1
	t.Logf("%d kills, %d survivors; from the kill to the error: median %v, most %v; to the end of the process: median %v, most %v", kills, last+1,
		all.reports[last/2].Round(10*time.Microsecond), all.reports[last].Round(10*time.Microsecond),
		all.exits[last/2].Round(10*time.Microsecond), all.exits[last].Round(10*time.Microsecond))
}

// killRank starts n ranks and kills one of them.
func killRank(t *testing.T, n, victim int, device string, early bool, rng *rand.Rand, temporary string) (k killed) {
	t.Helper()
	hosts := "auto"
	if n > 2 { // for what goes along hosts
		hosts = fmt.Sprintf("2,%d", n-2)
	}
	ranks := startRanks(t, n, rankJob{Device: device, Hosts: hosts, Seed: rng.Uint64(), Shares: device == shared0 && rng.IntN(2) == 0}, temporary)
	var sockets []string
	for r, p := range ranks {
		s, err := p.awaits("connected", 2*rankTimeout)
		if err != nil {
			t.Fatalf("rank %d: %v", r, err)
		}
		if len(s.Sockets) == 0 {
			t.Errorf("rank %d has no socket for those who map its memory", r)
		}
		sockets = append(sockets, s.Sockets...)
	}
	wait := time.Duration(rng.IntN(100_000)) * time.Microsecond
	if early { // until now some may have gone on to the first operation, and some not
		wait /= 20
	} else {
		for r, p := range ranks {
			if _, err := p.awaits("working", 2*rankTimeout); err != nil {
				t.Fatalf("rank %d: %v", r, err)
			}
		}
	}
	time.Sleep(wait)
	begun := time.Now()
	if err := ranks[victim].cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	for r, p := range ranks {
		if r == victim {
			continue
		}
		s, err := p.awaits("failed", rankTimeout/2)
		if s.What == "working" { // killed before that
			s, err = p.awaits("failed", rankTimeout/2)
		}
		if err != nil {
			t.Errorf("rank %d, after rank %d of %d was killed: %v", r, victim, n, err)
			_ = p.cmd.Process.Signal(syscall.SIGQUIT)
			continue
		}
		k.reports = append(k.reports, time.Unix(0, s.At).Sub(begun))
		if !strings.Contains(s.Error, "rank "+strconv.Itoa(victim)) {
			t.Errorf("rank %d: %q does not name rank %d", r, s.Error, victim)
		}
	}
	for r, p := range ranks {
		timer := time.AfterFunc(rankTimeout/2, func() { _ = p.cmd.Process.Signal(syscall.SIGQUIT) })
		for range p.said { // Wait needs the whole output read
		}
		err := p.cmd.Wait()
		timer.Stop()
		if r == victim {
			continue
		}
		k.exits = append(k.exits, time.Since(begun))
		if err != nil {
			t.Errorf("rank %d: %v: %s", r, err, p.stderr.String())
		}
	}
	for r, p := range ranks {
		if err := syscall.Kill(p.cmd.Process.Pid, 0); err != syscall.ESRCH {
			t.Errorf("rank %d: process %d is still there: %v", r, p.cmd.Process.Pid, err)
		}
	}
	table, err := os.ReadFile("/proc/net/unix")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range sockets {
		if strings.Contains(string(table), name) {
			t.Errorf("socket %s is still there", name)
		}
	}
	return k
}

// traces returns what there is of files that could be of ranks, whoever else uses
// the directories.
func traces(t *testing.T) (names []string) {
	t.Helper()
	for _, dir := range []string{"/dev/shm", "/tmp"} {
		list, err := os.ReadDir(dir)
		if err != nil && !os.IsNotExist(err) {
			t.Fatal(err)
		}
		for _, f := range list {
			// Tests of other packages run at the same time, and have theirs.
			if name := f.Name(); strings.Contains(name, "ringcli") && !strings.HasPrefix(name, "ringcli-test") || strings.Contains(name, "arena") {
				names = append(names, dir+"/"+name)
			}
		}
	}
	return names
}
