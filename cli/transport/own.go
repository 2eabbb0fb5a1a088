package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"time"

	"ringcli/cli/command"
	"ringcli/cli/local"
	"ringcli/cli/session"
	"ringcli/ring/bootstrap/seal"
)

// startWithin is how long it may take to start, on a busy machine.
const startWithin = 30 * time.Second

// ownServer starts a server that ends with this process, or with end. Nobody else can use it:
// the two have a token of their own.
func ownServer(ctx context.Context, s *session.Session, call command.Call) (address string, end func() error, err error) {
	token := seal.Random()
	secrets, err := s.Secrets.HandOver(s.Config, token)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = secrets.Close() }() // the server has its own
	read, pipe, err := os.Pipe()
	if err != nil {
		return "", nil, fmt.Errorf("make a pipe to the server: %w", err)
	}
	heard, report, err := os.Pipe()
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("make a pipe from the server: %w", err), read.Close(), pipe.Close())
	}
	others := append(slices.Clone(flagsOf[wordBench]), "tcp-port", "bind", "output", "token-file")
	args := append([]string{"transport", wordServe, "--tcp-port=0"}, local.ChangedFlags(call.Flags, others...)...)
	cmd := exec.Command("/proc/self/exe", append(args, "--"+session.ParentFlag+"=3", "--"+session.ReportFlag+"=4", "--"+session.SecretsFlag+"=5")...)
	cmd.Args[0] = "ringcli"
	cmd.ExtraFiles = []*os.File{read, report, secrets}
	cmd.Stderr = s.Stderr
	cmd.WaitDelay = time.Second
	err = cmd.Start()
	err = errors.Join(err, read.Close(), report.Close())
	end = func() error {
		err := errors.Join(pipe.Close(), heard.Close()) // which ends it
		kill := time.AfterFunc(2*session.ChildGrace, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		_ = cmd.Wait() // it is interrupted
		return err
	}
	if err != nil {
		return "", nil, errors.Join(fmt.Errorf("start the server: %w", err), pipe.Close(), heard.Close())
	}
	s.Secrets.Use(token)
	defer context.AfterFunc(ctx, func() { _ = heard.SetReadDeadline(time.Now()) })()
	_ = heard.SetReadDeadline(time.Now().Add(startWithin)) // a pipe takes one
	var r ServeResult
	if err := json.NewDecoder(heard).Decode(&r); err != nil {
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		} else {
			err = fmt.Errorf("the server that was started here has not come up: %w", err)
		}
		return "", nil, errors.Join(err, end())
	}
	return net.JoinHostPort(loopback.String(), strconv.Itoa(r.Port)), end, nil
}
