//go:build linux

// Command guest is the one program in a rack's virtual machine that is not the
// host's: a static file that the kernel starts as PID 1 of the initramfs. It makes
// a root file system of the host's own, read-only, under a layer in memory, brings
// up eth0 and rxe0, starts itself again as the agent that runs what the host asks
// for, and then only reaps.
package main

import (
	"errors"
	"fmt"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"ringcli/verbs/ibv/racktest/rack/wire"
)

// portFD is where the agent finds the virtio-serial port: the first of
// exec.Cmd.ExtraFiles.
const portFD = 3

func main() {
	if len(os.Args) > 1 && os.Args[1] == "agent" {
		port := os.NewFile(portFD, "port")
		fmt.Fprintln(os.Stderr, "guest: agent:", newAgent(port).serve())
		os.Exit(1)
	}
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "guest: this is the first program of a rack's virtual machine (PID 1), which Up starts")
		os.Exit(3)
	}
	fmt.Fprintln(os.Stderr, "guest:", boot())
	off()
}

// boot does all that happens once, and says why it has ended: the agent never
// should.
func boot() error {
	if err := mountKernel(); err != nil {
		return err
	}
	if err := loadModules("/modules/base"); err != nil {
		return err
	}
	port, err := openPort()
	if err != nil {
		return err
	}
	w := wire.NewWriter(port)
	agent, err := setUp(port)
	if err != nil {
		_ = w.Write(wire.Frame{Kind: wire.Failed, Data: []byte(err.Error())})
		return err
	}
	if err := w.Write(wire.Frame{Kind: wire.Ready}); err != nil {
		return err
	}
	return reap(agent)
}

// setUp turns what is an initramfs into the machine that the host has configured,
// and starts the agent.
func setUp(port *os.File) (agent int, err error) {
	f, err := wire.Read(port)
	if err != nil {
		return 0, fmt.Errorf("waiting for the configuration: %w", err)
	}
	var c wire.Config
	if f.Kind != wire.Configure {
		return 0, fmt.Errorf("the first frame is %v, expected is %v", f.Kind, wire.Configure)
	}
	if err := f.Into(&c); err != nil {
		return 0, err
	}
	if !c.Plain {
		if err := loadModules("/modules/rdma"); err != nil {
			return 0, err
		}
	}
	if err := makeRoot(c); err != nil {
		return 0, err
	}
	for name, value := range c.Env {
		if err := os.Setenv(name, value); err != nil {
			return 0, err
		}
	}
	unlimited := unix.Rlimit{Cur: unix.RLIM_INFINITY, Max: unix.RLIM_INFINITY}
	if err := unix.Setrlimit(unix.RLIMIT_MEMLOCK, &unlimited); err != nil {
		return 0, fmt.Errorf("no memory may be locked: %w", err)
	}
	if err := makeNetwork(c); err != nil {
		return 0, err
	}
	p, err := os.StartProcess("/proc/self/exe", []string{"guest", "agent"}, &os.ProcAttr{
		Dir: "/", Env: os.Environ(), Files: []*os.File{nil, os.Stdout, os.Stderr, port},
	})
	if err != nil {
		return 0, fmt.Errorf("starting the agent: %w", err)
	}
	return p.Pid, nil
}

// reap collects what has ended, its own children and the orphans that become
// PID 1's, until the agent is among them, which is an error.
func reap(agent int) error {
	for {
		var status unix.WaitStatus
		pid, err := unix.Wait4(-1, &status, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return fmt.Errorf("wait: %w", err)
		case pid == agent:
			return fmt.Errorf("the agent has ended: status %#x", uint32(status))
		}
	}
}

// off ends the machine. The console gets a moment to print why.
func off() {
	time.Sleep(100 * time.Millisecond)
	_ = unix.Reboot(unix.LINUX_REBOOT_CMD_POWER_OFF)
	os.Exit(1) // a PID 1 that exits is a panic, which ends QEMU as well
}
