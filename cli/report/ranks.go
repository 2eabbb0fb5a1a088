package report

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"ringcli/cli/command"
	"ringcli/cli/doctor"
	"ringcli/cli/exit"
	"ringcli/cli/render"
	"ringcli/cli/session"
	"ringcli/ring"
)

const (
	// pieceBytes goes through a frame of the control ring at a time, with room to spare.
	pieceBytes = 512 << 10
	// mostOfRank is the longest part of a rank, packed.
	mostOfRank = 16 << 20
)

// gather brings the parts of all ranks to rank 0, a piece of each at a time. Each piece passes
// all ranks, of which the others forget it at once.
func gather(ctx context.Context, s *session.Session, mine []byte) ([][]byte, error) {
	sizes, err := session.Share(ctx, s.Member, len(mine))
	if err != nil {
		return nil, err
	}
	parts := make([][]byte, len(sizes))
	for at := 0; at < slices.Max(sizes); at += pieceBytes {
		piece := mine[min(at, len(mine)):min(at+pieceBytes, len(mine))]
		pieces, err := s.Ring.Gather(ctx, ring.Purpose{What: "gather", Do: "send its part of the report"}, piece)
		if err != nil {
			return nil, err
		}
		for rank, piece := range pieces {
			if s.Ring.Rank() == 0 {
				parts[rank] = append(parts[rank], piece...)
			}
		}
	}
	return parts, nil
}

// runAll packs the nodes of all ranks.
func runAll(ctx context.Context, s *session.Session, call command.Call) error {
	host, _ := os.Hostname() // without a name it is "node"
	now, rank := time.Now(), s.Ring.Rank()
	folder, out := folderOf(host, now), ""
	a := aboutOf(s, call)
	a.Recorder = command.IsOn(call.Flags, "recorder")
	err := checkLine(ctx, s, call, 0) // of one that was typed, too
	if rank > 0 {
		a.Results = nil
	} else if err == nil {
		if out, err = target(s, call, folder); err == nil {
			err = a.checkGiven()
		}
	}
	if err == nil {
		a.Found, err = doctor.Look(ctx, s, 0)
	}
	if err := s.Member.Agree(ctx, err); err != nil {
		return err
	}
	var mine bytes.Buffer
	p, err := a.pack(ctx, &mine, "", fmt.Sprintf("rank %d: %s", rank, titleOf(host, now)), now)
	if err == nil && mine.Len() > mostOfRank {
		err = exit.Usagef("%s: rank %d's part has %d bytes: expected at most %d: `ringcli report` on its node packs it, and the files beside it", name, rank, mine.Len(), mostOfRank)
	}
	if err := s.Member.Agree(ctx, err); err != nil {
		return err
	}
	parts, err := gather(ctx, s, mine.Bytes())
	if err != nil {
		return err
	}
	if rank == 0 {
		err = render.WriteFile(name, out, func(w io.Writer) error {
			all := newArchive(w, folder, now, nil)
			for rank, part := range parts {
				if err := all.adopt(fmt.Sprintf("rank%d", rank), part); err != nil {
					return err
				}
			}
			p.Ranks, p.Files = len(parts), all.packed-len(parts) // of which each has a manifest
			return errors.Join(all.tar.Close(), all.zip.Close())
		})
	}
	if err := s.Member.Agree(ctx, exit.OrInterrupted(ctx, err)); err != nil || rank > 0 {
		return err
	}
	return p.print(s, out)
}
