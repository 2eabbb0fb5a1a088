package racktest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"ringcli/verbs/ibv/racktest/rack"
)

// helperVariable makes this test binary one of the helpers, in a machine or on the
// host's leg, instead of the tests.
const helperVariable = "RACKTEST_HELPER"

var helpers = map[string]func(args []string) error{"echo": echo, "ask": ask, "up": up}

// helper is the command line of a helper.
func helper(t testing.TB, name string, args ...string) []string {
	t.Helper()
	path, err := copySelf()
	if err != nil {
		t.Fatal(err)
	}
	return append([]string{"env", helperVariable + "=" + name, path}, args...)
}

// copySelf puts this binary where the machines see it as it is.
var copySelf = sync.OnceValues(func() (string, error) {
	self, err := os.Executable()
	if err != nil {
		return "", err
	}
	b, err := os.ReadFile(self)
	path := filepath.Join(shared, "helper")
	return path, errors.Join(err, os.WriteFile(path, b, 0o755))
})

// echo returns UDP packets to their senders: address and port.
func echo(args []string) error {
	conn, err := net.ListenPacket("udp", args[0])
	if err != nil {
		return err
	}
	fmt.Println("listening")
	b := make([]byte, 65536)
	for {
		n, from, err := conn.ReadFrom(b)
		if err != nil {
			return err
		}
		if _, err := conn.WriteTo(b[:n], from); err != nil {
			return err
		}
	}
}

// ask sends a UDP packet and prints the answer: address and port, text.
func ask(args []string) error {
	conn, err := net.Dial("udp", args[0])
	if err != nil {
		return err
	}
	if err := conn.SetDeadline(time.Now().Add(deadline)); err != nil {
		return err
	}
	if _, err := conn.Write([]byte(args[1])); err != nil {
		return err
	}
	b := make([]byte, 65536)
	n, err := conn.Read(b)
	fmt.Println(string(b[:n]), "from", conn.RemoteAddr())
	return err
}

// up boots a rack, prints its network and waits to be killed.
func up([]string) error {
	r, err := rack.Up(context.Background(), rack.Options{Log: os.Stderr})
	if err != nil {
		return err
	}
	network, err := r.Host(context.Background(), "readlink", "/proc/self/ns/net").Output()
	if err != nil {
		return errors.Join(err, r.Down())
	}
	fmt.Print(string(network))
	time.Sleep(10 * deadline)
	return errors.Join(errors.New("nobody has killed this"), r.Down())
}
