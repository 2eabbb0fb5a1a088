package launch_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"ringcli/ring/bootstrap/launch"
)

// What the test binary is in TestKeep: what Hydra starts, which is keeper and rank, and a
// process that the rank starts.
const asKept, asChild = "kept", "child of one that is kept"

var keeping = map[string]func() int{asKept: runKept, asChild: runChild}

var errGone = errors.New("the keeper has gone")

func runKept() int {
	_, code, kept, err := launch.Keep(context.Background(), errGone)
	if kept || err != nil {
		fmt.Print(err, "\n")
		return code
	}
	self, err := os.Executable()
	if err != nil {
		fmt.Println(err)
		return 1
	}
	c := exec.Command(self)
	c.Env = append(os.Environ(), asRank+"="+asChild)
	c.Stdout = os.Stdout
	fmt.Printf("rank: %v\n", launch.IsKept())
	err = c.Run()        // it has no descriptor 4, or its own
	_ = syscall.Close(3) // the launcher's
	_, _ = io.Copy(io.Discard, os.Stdin)
	if err != nil {
		fmt.Println(err)
	}
	return 7
}

func runChild() int {
	ctx, _, kept, err := launch.Keep(context.Background(), errGone)
	select {
	case <-ctx.Done():
	case <-time.After(300 * time.Millisecond):
	}
	fmt.Printf("child: %v %v %v %v\n", launch.IsKept(), kept, err, context.Cause(ctx))
	return 0
}

// A rank under Hydra has a keeper, which returns its exit code; what the rank starts has none.
// Hydra hears when the rank lets go of it.
func TestKeep(t *testing.T) {
	m := newManager(t, 1)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = null.Close() }()
	var out bytes.Buffer
	c := exec.CommandContext(within(t, hung), self)
	c.Env = append(clean(), asRank+"="+asKept, "HYDI_CONTROL_FD=9", "PMI_FD=5", "PMI_RANK=0", "GORACE=atexit_sleep_ms=0")
	c.ExtraFiles = []*os.File{null, null, m.ends[0]} // above those of the rank
	c.Stdout, c.Stderr = &out, &out
	stdin, err := c.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	_ = m.ends[0].Close() // the rank has it
	heard := make(chan struct{})
	go func() {
		m.wg.Wait()
		close(heard)
	}()
	select {
	case <-heard:
	case <-time.After(hung / 2):
		t.Error("the rank has closed PMI_FD, and the manager has not heard of it")
	}
	_ = stdin.Close()
	err = c.Wait()
	if want := "rank: true\nchild: false false <nil> <nil>\n<nil>\n"; c.ProcessState.ExitCode() != 7 || out.String() != want {
		t.Errorf("%v:\n%s\nexpected exit code 7 and\n%s", err, out.String(), want)
	}
}
