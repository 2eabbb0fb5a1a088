package launch

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ringcli/configs/usage"
)

// pmi speaks PMI-1's lines over the descriptor that a process manager passes on in PMI_FD:
// MPICH's Hydra (src/pm/hydra, src/pmi/simple), and Slurm's plugin pmi2 (src/plugins/mpi/pmi2),
// which speaks both versions. Keys and values that are put can be got after a barrier.
type pmi struct {
	rank, size int
	conn       *os.File
	in         *bufio.Reader
	space      string // the name of the key-value space
	value      int    // bytes of the longest value
	late       int    // answers that were given up, and may come yet
	round      int
}

func openPMI(ctx context.Context) (_ Launcher, err error) {
	p := &pmi{}
	fd, err := variable("PMI_FD", 3)
	if err == nil {
		p.rank, err = variable("PMI_RANK", 0)
	}
	if err == nil {
		p.size, err = variable("PMI_SIZE", 1)
	}
	if err != nil {
		return nil, err
	}
	if p.rank >= p.size {
		return nil, usage.Errorf("PMI_RANK is %d and PMI_SIZE %d: expected a smaller rank, as the launcher sets it", p.rank, p.size)
	}
	syscall.CloseOnExec(fd)
	if err := syscall.SetNonblock(fd, true); err != nil { // so that it has deadlines
		return nil, usage.Errorf("PMI_FD is %d, which is no open descriptor (%v): expected the one that the launcher passes on; is there a program between that closes it?", fd, err)
	}
	p.conn = os.NewFile(uintptr(fd), "PMI_FD")
	p.in = bufio.NewReader(p.conn)
	defer func() {
		if err != nil {
			_ = p.conn.Close()
		}
	}()
	if _, err = p.ask(ctx, "cmd=init pmi_version=1 pmi_subversion=1", "response_to_init"); err != nil {
		return nil, err
	}
	maxes, err := p.ask(ctx, "cmd=get_maxes", "maxes")
	if err != nil {
		return nil, err
	}
	if p.value, err = strconv.Atoi(maxes["vallen_max"]); err != nil || p.value < 16 {
		return nil, fmt.Errorf("rank %d of %d: PMI's get_maxes: the launcher takes values of %q bytes: expected 16 or more", p.rank, p.size, maxes["vallen_max"])
	}
	p.value-- // a zero byte ends it there
	name, err := p.ask(ctx, "cmd=get_my_kvsname", "my_kvsname")
	p.space = name["kvsname"]
	return p, err
}

// ask sends a line and returns what the answer says. Answers are name=value, separated by
// blanks; no value of ours has one.
func (p *pmi) ask(ctx context.Context, line, answer string) (map[string]string, error) {
	said := strings.Fields(line)[0]
	defer until(ctx, p.conn)()
	_, err := io.WriteString(p.conn, line+"\n")
	var text string
	fields := map[string]string{}
	for err == nil {
		if text, err = p.in.ReadString('\n'); err != nil {
			p.late++
			break
		}
		clear(fields)
		for _, f := range strings.Fields(text) {
			name, value, _ := strings.Cut(f, "=")
			fields[name] = value
		}
		if fields["cmd"] == answer || p.late == 0 {
			break
		}
		p.late--
	}
	switch {
	case ctx.Err() != nil && said == "cmd=barrier_in":
		return nil, fmt.Errorf("rank %d of %d: awaited all ranks at PMI's barrier, which does not say who is not there: `ringcli connect` must run as each of them: %w", p.rank, p.size, context.Cause(ctx))
	case ctx.Err() != nil:
		return nil, fmt.Errorf("rank %d of %d: awaited the launcher's answer to PMI's %s: %w", p.rank, p.size, said, context.Cause(ctx))
	case errors.Is(err, io.EOF):
		return nil, fmt.Errorf("rank %d of %d: the launcher has closed PMI_FD instead of an answer to %s: it has ended, or ends this job", p.rank, p.size, said)
	case err != nil:
		return nil, fmt.Errorf("rank %d of %d: PMI's %s: %w", p.rank, p.size, said, err)
	}
	if rc := fields["rc"]; fields["cmd"] != answer || rc != "" && rc != "0" {
		return nil, fmt.Errorf("rank %d of %d: PMI's %s: the launcher says %q: expected cmd=%s rc=0", p.rank, p.size, said, strings.TrimSpace(text), answer)
	}
	return fields, nil
}

func (p *pmi) Rank() int { return p.rank }
func (p *pmi) Size() int { return p.size }

// AllGather puts what is given in as many values as it needs; the first begins with their
// number.
func (p *pmi) AllGather(ctx context.Context, own []byte) ([][]byte, error) {
	p.round++
	text := base64.RawURLEncoding.EncodeToString(own)
	room := p.value - len("1000000:")
	count := max((len(text)+room-1)/room, 1)
	for i := range count {
		part := text[i*room : min((i+1)*room, len(text))]
		if i == 0 {
			part = strconv.Itoa(count) + ":" + part
		}
		if _, err := p.ask(ctx, fmt.Sprintf("cmd=put kvsname=%s key=%s value=%s", p.space, p.key(p.rank, i), part), "put_result"); err != nil {
			return nil, err
		}
	}
	if err := p.Barrier(ctx); err != nil {
		return nil, err
	}
	all := make([][]byte, p.size)
	for r := range all {
		count, text := 1, ""
		for i := 0; i < count; i++ {
			got, err := p.ask(ctx, fmt.Sprintf("cmd=get kvsname=%s key=%s", p.space, p.key(r, i)), "get_result")
			if err != nil {
				return nil, fmt.Errorf("what rank %d has put: %w", r, err)
			}
			part := got["value"]
			if i == 0 {
				number, rest, _ := strings.Cut(part, ":")
				if count, err = strconv.Atoi(number); err != nil {
					return nil, fmt.Errorf("what rank %d has put is %q: expected the same ringcli on all nodes", r, part)
				}
				part = rest
			}
			text += part
		}
		var err error
		if all[r], err = base64.RawURLEncoding.DecodeString(text); err != nil {
			return nil, fmt.Errorf("what rank %d has put: %w", r, err)
		}
	}
	return all, nil
}

func (p *pmi) key(rank, part int) string { return fmt.Sprintf("ringcli-%d-%d-%d", p.round, rank, part) }

func (p *pmi) Barrier(ctx context.Context) error {
	_, err := p.ask(ctx, "cmd=barrier_in", "barrier_out")
	return err
}

// Close tells the launcher that this process ends in good order whenever it does: without
// that the launcher would kill the others before they could say who is at fault.
func (p *pmi) Close() error {
	ctx, cancel := context.WithTimeoutCause(context.Background(), patience, fmt.Errorf("nothing came within %s", patience))
	defer cancel()
	_, err := p.ask(ctx, "cmd=finalize", "finalize_ack")
	return errors.Join(err, p.conn.Close())
}

// until ends what a connection waits for with ctx. The function that it returns gives the
// connection back without a deadline.
func until(ctx context.Context, conn *os.File) (back func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(over)
		_ = conn.SetDeadline(time.Unix(1, 0)) // fails on a closed one only
	})
	return func() {
		if stop() {
			return
		}
		<-over // else it might be the last to set one
		_ = conn.SetDeadline(time.Time{})
	}
}
