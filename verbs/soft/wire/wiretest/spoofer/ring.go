package main

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const (
	ranks = 4
	// before is how long the ring runs without an attack, to compare with.
	before = 5 * time.Second
	nobody = 65534
)

// member is a rank of the ring.
type member struct {
	*exec.Cmd
	out, err bytes.Buffer
	ended    chan struct{}
}

// besiege has a ring live through the flood, and says how.
func besiege(ctx context.Context, program string, duration time.Duration) error {
	hosts, claim, err := freshHosts()
	if err != nil {
		return err
	}
	defer func() { _ = claim.Close() }()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	secret := "RINGCLI_TOKEN=" + rand.Text()
	measure := func(d time.Duration) string { return fmt.Sprintf("all-reduce --size 1M --check --duration %s", d) }
	var world [ranks]*member
	for i := range world {
		args := []string{"connect", "--index", strconv.Itoa(i), "--list", strings.Join(hosts, ","), "--device", "soft", "--output", "json"}
		if i == 0 {
			args = append(args, "-c", measure(before)+"; "+measure(duration)+"; "+measure(before))
		} else {
			args = append(args, "--follow")
		}
		m := &member{Cmd: exec.CommandContext(ctx, program, args...), ended: make(chan struct{})}
		m.Env = append(os.Environ(), secret)
		m.Stdout, m.Stderr = &m.out, &m.err
		if err := m.Start(); err != nil {
			return err
		}
		go func() {
			_ = m.Wait() // the state says it
			close(m.ended)
		}()
		world[i] = m
	}
	select {
	case <-time.After(before + 2*time.Second): // the ring is up by then, or fails
	case <-ctx.Done():
	}
	from, to := make([]string, ranks), make([]string, ranks)
	for i := range hosts {
		from[i], to[i] = hosts[(i+1)%ranks], hosts[i]+":4791"
	}
	attack := exec.CommandContext(ctx, "/proc/self/exe", "-from", strings.Join(from, ","), "-to", strings.Join(to, ","), "-duration", (duration - 2*time.Second).String())
	attack.Stdout, attack.Stderr = os.Stdout, os.Stderr
	if os.Geteuid() == 0 {
		attack.Dir = "/"
		attack.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: nobody, Gid: nobody}}
	}
	if err := attack.Start(); err != nil {
		return err
	}
	most := make([]int, ranks) // VmHWM in KiB
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for i := 0; i < ranks; {
		select {
		case <-world[i].ended:
			i++
		case <-ticker.C:
			for j, m := range world {
				most[j] = max(most[j], peak(m.Process.Pid))
			}
		}
	}
	spoofed := attack.Wait()
	failed := spoofed
	for i, m := range world {
		fmt.Printf("rank %d: exit code %d, at most %d MiB of memory\n", i, m.ProcessState.ExitCode(), most[i]>>10)
		if !m.ProcessState.Success() {
			failed = errors.Join(failed, fmt.Errorf("rank %d: %s", i, m.err.String()))
		}
	}
	fmt.Print(results(world[0].out.Bytes()))
	if warned := strings.TrimSpace(world[0].err.String()); warned != "" {
		fmt.Printf("rank 0 said:\n%s\n", warned)
	}
	if failed == nil {
		fmt.Println("the ring lived")
	}
	return failed
}

// results are the lines of rank 0 in short.
func results(out []byte) string {
	var text strings.Builder
	names := []string{"before the flood", "under it", "after it"}
	for line := range bytes.Lines(out) {
		var r struct {
			Command string
			OK      bool
			Iters   int
			Busbw   float64 `json:"busbw_GBps"`
			Wrong   uint64
		}
		if json.Unmarshal(line, &r) == nil && r.Command == "all-reduce" && len(names) > 0 {
			fmt.Fprintf(&text, "%s: %d all-reduces of 1 MiB, busbw %.2f GB/s, %d elements wrong\n", names[0], r.Iters, r.Busbw, r.Wrong)
			names = names[1:]
		}
	}
	return text.String()
}

// freshHosts are addresses of a 127.x.y.0/24 that nobody uses; what it returns holds it.
func freshHosts() (hosts []string, claim net.Listener, err error) {
	var b [2]byte
	for range 100 {
		_, _ = rand.Read(b[:]) // never fails
		net24 := fmt.Sprintf("127.%d.%d.", 1+b[0]%254, 1+b[1]%254)
		if claim, err = net.Listen("tcp", net24+"254:18600"); err == nil {
			for i := range ranks {
				hosts = append(hosts, net24+strconv.Itoa(i+1))
			}
			return hosts, claim, nil
		}
	}
	return nil, nil, err
}

// peak is the most memory that a process has had, in KiB; 0 if it is gone.
func peak(pid int) (kib int) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if _, rest, ok := strings.Cut(string(text), "VmHWM:"); ok {
		_, _ = fmt.Sscan(rest, &kib)
	}
	return kib
}
