package cpu

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// onThread runs a test on a thread of its own, which ends with it: it is bound.
func onThread(t *testing.T, test func(all []int)) {
	t.Helper()
	all, err := Allowed()
	if err != nil {
		t.Fatal(err)
	}
	if len(all) < 2 {
		t.Skipf("CPUs %v: an affinity needs two", all)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		test(all)
	}()
	<-done
}

// bind binds the thread to one CPU.
func bind(t *testing.T, cpu int) {
	t.Helper()
	var set unix.CPUSet
	set.Set(cpu)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		t.Error(err)
	}
}

// describe makes a sysfs of its own for a test, of CPUs with these files.
func describe(t *testing.T, cpus []int, files func(cpu int) map[string]string) {
	t.Helper()
	before := sysfs
	sysfs = t.TempDir()
	t.Cleanup(func() { sysfs = before })
	for _, cpu := range cpus {
		if err := os.MkdirAll(directory(cpu), 0o777); err != nil {
			t.Fatal(err)
		}
		if files == nil {
			continue
		}
		for name, text := range files(cpu) {
			path := filepath.Join(directory(cpu), name)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o777), os.WriteFile(path, []byte(text+"\n"), 0o666)); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// seated returns the CPUs of the ranks of a ring; -1 is none.
func seated(t *testing.T, cpus []int, ranks int) (list []int, leave func()) {
	t.Helper()
	var all []*Affinity
	for index := range ranks {
		a := NewAffinity(cpus, index, ranks)
		all = append(all, a)
		if a == nil {
			list = append(list, -1)
		} else {
			list = append(list, a.CPU())
		}
	}
	return list, func() {
		t.Helper()
		for _, a := range all {
			if err := a.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// Each ring has its ranks side by side on CPUs that no other ring has, as long as there are
// some; one that needs all CPUs has them all the same.
func TestRingsTakeTheirOwnCPUs(t *testing.T) {
	cpus := []int{0, 2, 4, 6}
	describe(t, cpus, nil)
	expect := func(ranks int, want ...int) (leave func()) {
		t.Helper()
		list, leave := seated(t, cpus, ranks)
		if !slices.Equal(list, want) {
			t.Errorf("%d ranks on CPUs %v, expected %v", ranks, list, want)
		}
		return leave
	}
	first := expect(2, 0, 2)
	second := expect(2, 4, 6)
	expect(2, -1, -1)
	expect(5, 0, 2, 4, 6, 0)()
	first()
	third := expect(3, 0, 2, -1)
	second()
	third()
	expect(3, 0, 2, 4)()
	expect(4, 0, 2, 4, 6)()
	sysfs += "/none"
	expect(3, 0, 2, 4)()
}

// The first threads of all cores come before the second of any, and those of one socket and
// cache stand side by side.
func TestNear(t *testing.T) {
	cpus := []int{0, 1, 2, 3, 4, 5, 6, 7, 8, 9}
	// Cores of the even CPUs and the one after: 0 to 3 and 8 on one cache, 4 to 7 on another;
	// 9 says nothing.
	describe(t, cpus, func(cpu int) map[string]string {
		switch {
		case cpu == 8:
			return map[string]string{"topology/thread_siblings_list": "8", "cache/index3/shared_cpu_list": "0-3,8"}
		case cpu > 8:
			return nil
		}
		cache := "0-3,8"
		if cpu > 3 {
			cache = "4-7"
		}
		return map[string]string{"topology/thread_siblings_list": FormatList([]int{cpu &^ 1, cpu | 1}), "topology/physical_package_id": "0", "cache/index3/shared_cpu_list": cache}
	})
	for _, c := range [][2][]int{
		{cpus, {0, 2, 8, 9, 4, 6, 1, 3, 5, 7}},
		{{1, 2, 3, 5}, {1, 2, 5, 3}},
		{{20, 10}, {10, 20}},
	} {
		if got := near(slices.Clone(c[0])); !slices.Equal(got, c[1]) {
			t.Errorf("%v in the order %v, expected %v", c[0], got, c[1])
		}
	}
}

func TestList(t *testing.T) {
	for text, want := range map[string][]int{"0": {0}, "0-3,8": {0, 1, 2, 3, 8}, "3,1": {3, 1}, "2-2": {2}} {
		got, err := ParseList(text)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%q is %v, %v", text, got, err)
		}
		if back, err := ParseList(FormatList(got)); err != nil || !slices.Equal(back, want) {
			t.Errorf("%v is written %q", got, FormatList(got))
		}
	}
	for _, text := range []string{"", "a", "1,", "3-1", "-1", "1,1", "0-3,2", "9000", "0-99999999", "1-"} {
		if got, err := ParseList(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// Where another program keeps a rank waiting on its CPU it takes the one where it is, if that
// is nobody's, and else comes back ever more rarely.
func TestAffinityGivesWay(t *testing.T) {
	cpus := []int{0, 1, 2, 3}
	describe(t, cpus, nil)
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	a, other := NewAffinity(cpus, 0, 2), NewAffinity(cpus, 1, 2)
	now := time.Now()
	judge := func(running int, waiting time.Duration) {
		now = now.Add(lookEvery)
		a.came = stay{unix.Gettid(), now.Add(-lookEvery), waited() - waiting}
		a.judge(now, running)
	}
	for range busyTimes - 1 {
		judge(2, lookEvery)
	}
	if a.CPU() != 0 || !now.Before(a.rest) {
		t.Fatalf("%d waits have it on CPU %d, until %v", busyTimes-1, a.CPU(), a.rest)
	}
	judge(2, 0) // one without
	for range busyTimes - 1 {
		judge(2, lookEvery)
	}
	if a.CPU() != 0 {
		t.Fatal("it gave its CPU up though it had it in between")
	}
	judge(2, lookEvery)
	if a.CPU() != 2 {
		t.Fatalf("it stays on CPU %d", a.CPU())
	}
	for range 30 {
		judge(other.CPU(), time.Hour)
	}
	if a.CPU() != 2 || a.rest.Sub(now) != longestPause {
		t.Errorf("it is on CPU %d, and comes back in %v", a.CPU(), a.rest.Sub(now))
	}
	next := NewAffinity(cpus, 0, 2)
	if next.CPU() != 0 {
		t.Errorf("another ring is on CPU %d, not on the one that was given up", next.CPU())
	}
	for _, a := range []*Affinity{a, other, next} {
		if err := a.Close(); err != nil {
			t.Error(err)
		}
	}
	if judge(2, lookEvery); a.Restore(now.Add(time.Hour)) {
		t.Error("one that was closed moves threads")
	}
}

// A thread comes back, and may go where it might before; one that somebody has bound
// elsewhere stays there.
func TestAffinityKeep(t *testing.T) {
	var none *Affinity
	none.Restore(time.Now())
	onThread(t, func(all []int) {
		describe(t, all, nil)
		s := NewAffinity(all, 0, len(all))
		now := time.Now()
		keep := func() int {
			now = now.Add(lookEvery)
			s.Restore(now)
			at, err := current()
			if err != nil {
				t.Error(err)
			}
			return at
		}
		came := 0
		for range 20 {
			if keep() == s.CPU() { // the kernel may move it at any time
				came++
			}
		}
		if came == 0 {
			t.Errorf("it never was on CPU %d", s.CPU())
		}
		if after, err := Allowed(); err != nil || !slices.Equal(all, after) {
			t.Errorf("CPUs %v before, %v after, %v", all, after, err)
		}
		bind(t, all[1])
		if at := keep(); at != all[1] {
			t.Errorf("bound to CPU %d, it is on %d", all[1], at)
		}
	})
}

func TestAffinityIsKeptNowAndThen(t *testing.T) {
	s := &Affinity{made: time.Now()}
	s.next.Store(int64(lookEvery))
	s.Restore(s.made.Add(lookEvery - 1))
	if s.next.Load() != int64(lookEvery) {
		t.Error("looked at too soon")
	}
	s.Restore(s.made.Add(lookEvery))
	if s.next.Load() != int64(2*lookEvery) {
		t.Error("not looked at in time")
	}
}
