package local

import (
	"fmt"
	"os"
	"os/exec"
	"strconv"

	"ringcli/cli/ledger"
	"ringcli/cli/render"
	"ringcli/cli/session"
)

// ledgerPipe is what a rank tells the ledger of this process by; nil where there is none.
type ledgerPipe struct{ read, write *os.File }

// listen gives a rank a pipe to the ledger.
func (f *processes) listen(cmd *exec.Cmd, rank int) (*ledgerPipe, error) {
	if f.s.Ledger == nil {
		return nil, nil
	}
	read, write, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("make a pipe from rank %d: %w", rank, err)
	}
	cmd.Args = append(cmd.Args, "--"+session.LedgerFlag+"="+strconv.Itoa(3+len(cmd.ExtraFiles)))
	cmd.ExtraFiles = append(cmd.ExtraFiles, write)
	return &ledgerPipe{read, write}, nil
}

// hear takes what a rank tells from now on. What is returned waits for the end of that, and
// says how the rank ended.
func (p *ledgerPipe) hear(l *ledger.Ledger, rank int, started bool) func(*rankProcess) {
	if p == nil {
		return func(*rankProcess) {}
	}
	// Nothing is written to them here.
	_ = p.write.Close()
	if !started {
		_ = p.read.Close()
		return nil
	}
	over := make(chan error, 1)
	go func() { over <- l.Receive(p.read, rank) }()
	return func(ended *rankProcess) {
		death, _ := ended.killedBy()
		if err := <-over; err != nil && death == nil {
			death = err
		}
		_ = p.read.Close()
		why := ""
		if death != nil {
			why = death.Error()
		}
		l.RankEnded(rank, rankCode(ended), render.Tame(why))
	}
}
