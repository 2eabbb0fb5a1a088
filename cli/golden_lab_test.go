package cli

import (
	"errors"
	"fmt"

	"ringcli/cli/lab"
	"ringcli/cli/session"
	"ringcli/verbs"
)

// labExamples are of the labs: one that goes well, and one that fails, explained.
func labExamples() []example {
	own := lab.Values{
		{Name: "qp_num", Text: "0xabcdef"}, {Name: "state", Text: "RTR"}, {Name: "dest_qp_num", Text: "0x000011"}, {Name: "rq_psn", Text: "0x123456"},
		{Name: "path_mtu", Text: "4096"}, {Name: "dgid", Text: exampleGID.String()}, {Name: "sgid_index", Text: "3"},
	}
	device := lab.Step{
		Number: 1, Name: "open device, PD, CQ", Call: "ibv_open_device, ibv_alloc_pd, ibv_create_cq", Explain: "What it does,\nand why.",
		Values: lab.Values{{Name: "device", Text: "soft:enp65s0f0np0"}, {Name: "gid", Text: exampleGID.String()}},
	}
	toRTR := lab.Step{Number: 6, Name: "INIT to RTR", Call: "ibv_modify_qp", Explain: "What it does.", Values: own, Peer: own}
	write := lab.Step{
		Number: 12, Name: "post RECV, then SEND", Call: "ibv_post_recv, ibv_post_send", Explain: "It reaches for memory.",
		Values: lab.Values{{Name: "rkey", Text: "0xdeadbeef"}}, Peer: lab.Values{{Name: "state", Text: "ERR"}},
		Err: &lab.Diagnosis{
			Err:    &lab.CompletionError{Completion: verbs.Completion{ID: uint64(verbs.WCWrite), Status: verbs.RemoteAccessError}},
			Causes: []string{"the RDMA_WRITE named rkey 0xdeadbeef, and the peer's region has rkey 0x1234"}, Meaning: "REM_ACCESS_ERR: the peer's\nadapter has refused it.",
		},
	}
	// take prints a lab as it runs; its time is not fixed, so the summary is printed
	// apart.
	take := func(which string, rank *int, explain bool, steps ...lab.Step) func(*session.Session) error {
		return func(s *session.Session) error {
			r := &lab.Runner{Session: s, Lab: which, Rank: rank, Explain: explain, Mark: lab.UnicodeMarks}
			if !explain {
				r.Mark = lab.AsciiMarks
			}
			for _, step := range steps {
				if err := errors.Join(r.Begin(step), r.Done(step)); err != nil {
					return err
				}
			}
			if failed := steps[len(steps)-1].Err; failed != nil {
				if err := r.ExplainFailure(); err != nil {
					return err
				}
			}
			result := lab.LabResult{Command: "lab", OK: r.Meaning == "", Lab: which, Rank: rank, Device: r.Device, Steps: r.Steps, Seconds: 0.125}
			if err := s.Out.Print(result); err != nil {
				return fmt.Errorf("the summary: %w", err)
			}
			return nil
		}
	}
	return []example{
		{"lab a", take("a", nil, false, device, toRTR)},
		{"lab c", take("c", new(1), false, device, toRTR, write)},
		{"lab explain", take("c", new(0), true, device, toRTR, write)},
	}
}
