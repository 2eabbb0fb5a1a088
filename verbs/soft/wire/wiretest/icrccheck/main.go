// Command icrccheck verifies the invariant CRC of every RoCEv2 packet in pcap
// files, and that responses go out in the order of their PSNs, and counts packets by
// opcode:
//
//	go run ./verbs/soft/wire/wiretest/icrccheck FILE.pcap...
//
// It exits with 1 where a packet is bad or a file has no RoCEv2 packet at all,
// and with 2 where it could not read a file.
//
// It is a second opinion on package wire and shares no code with it: the CRC
// is taken bit by bit from the polynomial's definition, and the headers are
// walked with tables of its own.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"ringcli/verbs/soft/wire/wiretest/pcap"
)

func main() { os.Exit(run(os.Args[1:], os.Stdout, os.Stderr)) }

// run checks the files and returns the exit status.
func run(files []string, stdout, stderr io.Writer) int {
	if len(files) == 0 {
		_, _ = fmt.Fprintln(stderr, "usage: icrccheck FILE.pcap...")
		return 2
	}
	status := 0
	for _, name := range files {
		s, err := checkFile(name)
		if err != nil {
			_, _ = fmt.Fprintln(stderr, "icrccheck:", err)
			return 2
		}
		s.print(stdout, name)
		if len(s.bad) > 0 || s.packets == 0 {
			status = 1
		}
	}
	return status
}

// summary is what a file holds.
type summary struct {
	packets int // RoCEv2 packets, the bad ones too
	bad     []string
	opcodes map[string]int
}

func checkFile(name string) (*summary, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	r, err := pcap.NewReader(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	s := &summary{opcodes: map[string]int{}}
	responses := order{}
	for {
		rec, err := r.Next()
		if errors.Is(err, io.EOF) {
			return s, nil
		} else if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		ip := rec.IP()
		if !isRoCE(ip) {
			continue
		}
		s.packets++
		op, err := check(ip)
		if err == nil {
			err = responses.check(ip)
		}
		if err != nil {
			s.bad = append(s.bad, fmt.Sprintf("frame %d: %v", rec.Number, err))
		}
		if op != "" {
			s.opcodes[op]++
		}
	}
}

func (s *summary) print(w io.Writer, name string) {
	_, _ = fmt.Fprintf(w, "%s: %d RoCEv2 packets, %d bad\n", name, s.packets, len(s.bad))
	names := make([]string, 0, len(s.opcodes))
	for op := range s.opcodes {
		names = append(names, op)
	}
	slices.Sort(names)
	for _, op := range names {
		_, _ = fmt.Fprintf(w, "%6d %s\n", s.opcodes[op], op)
	}
	for _, line := range s.bad {
		_, _ = fmt.Fprintln(w, "   bad", line)
	}
}
