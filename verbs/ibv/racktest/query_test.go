package racktest

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ringcli/verbs/ibv/ibvtest"
	"ringcli/verbs/ibv/racktest/rack"
)

// query has what ibv_devinfo -v prints, field by field, of a port that is up and of
// one that is down; devices has of the same what it shows.
func TestQuery(t *testing.T) {
	agree := func(k int, state string) {
		t.Helper()
		devices, err := ibvtest.ParseDevices(strings.NewReader(inVM(t, k, "ibv_devinfo", "-v")))
		if err != nil || len(devices) != 1 || len(devices[0].Ports) != 1 || devices[0].Ports[0].Fields["state"] != state {
			t.Fatalf("machine %d: %+v, %v, expected one device with one port, %s", k, devices, err, state)
		}
		compared, differences, err := devices[0].Compare([]byte(inVM(t, k, binary(t, "ringcli"), "query", "ibv:rxe0", "--output", "json")))
		if err != nil {
			t.Fatal(err)
		}
		const least = 60 // of 64 that rdma-core 44 prints
		if compared < least {
			t.Errorf("machine %d: %d values were compared, expected %d", k, compared, least)
		}
		differences = append(differences, compareDevices(t, devices[0], inVM(t, k, binary(t, "ringcli"), "devices", "--output", "json"))...)
		for _, difference := range differences {
			t.Errorf("machine %d: %s", k, difference)
		}
		t.Logf("machine %d, %s: %d values of query compared, %d differ", k, state, compared, len(differences))
	}
	agree(1, "PORT_ACTIVE (4)")
	agree(2, "PORT_ACTIVE (4)")
	t.Cleanup(func() { restore(t, 2) })
	if err := bench.Link(2, rack.LinkDown); err != nil {
		t.Fatal(err)
	}
	eventually(t, deadline, "the port is down", func() bool { return portState(t, 2) == "1: DOWN" })
	agree(2, "PORT_DOWN (1)")
}

// compareDevices compares a device of one port with the lines of `ringcli devices
// --output json`.
func compareDevices(t *testing.T, d ibvtest.Device, output string) (differences []string) {
	t.Helper()
	differ := func(name, theirs string, ours any) {
		if theirs != fmt.Sprint(ours) {
			differences = append(differences, fmt.Sprintf("%s: ibv_devinfo has %s, devices %v", name, theirs, ours))
		}
	}
	p := d.Ports[0]
	// "PORT_ACTIVE (4)" is ACTIVE there, "LINK_UP (5)" LinkUp, "4096 (5)" 4096.
	word := func(name string) string {
		w, _, _ := strings.Cut(p.Fields[name], " ")
		return strings.ReplaceAll(strings.TrimPrefix(w, "PORT_"), "_", "")
	}
	ports, gids := 0, 0
	for text := range strings.Lines(output) {
		var l struct {
			Device    string `json:"device"`
			Port      int    `json:"port"`
			State     string `json:"state"`
			PhysState string `json:"phys_state"`
			LinkLayer string `json:"link_layer"`
			MaxMTU    int    `json:"max_mtu"`
			ActiveMTU int    `json:"active_mtu"`
			LID       int    `json:"lid"`
			GIDs      int    `json:"gids"`
			Index     int    `json:"gid_index"`
			GID       string `json:"gid"`
			GIDType   string `json:"gid_type"`
		}
		if err := json.Unmarshal([]byte(text), &l); err != nil {
			t.Fatalf("%v: %q", err, text)
		}
		switch {
		case l.Device != "ibv:"+d.ID:
		case l.GID != "":
			if gids < len(p.GIDs) {
				g := p.GIDs[gids]
				differ(fmt.Sprintf("GID[%d]", g.Index), fmt.Sprintf("%d %s %s", g.Index, g.Addr, g.Type), fmt.Sprintf("%d %s %s", l.Index, l.GID, l.GIDType))
			}
			gids++
		default:
			ports++
			differ("port", strconv.Itoa(p.Number), l.Port)
			differ("state", word("state"), l.State)
			differ("phys_state", word("phys_state"), strings.ToUpper(l.PhysState))
			differ("link_layer", word("link_layer"), l.LinkLayer)
			differ("max_mtu", word("max_mtu"), l.MaxMTU)
			differ("active_mtu", word("active_mtu"), l.ActiveMTU)
			differ("port_lid", word("port_lid"), l.LID)
			differ("number of GIDs", strconv.Itoa(len(p.GIDs)), l.GIDs)
		}
	}
	differ("ports", "1", ports)
	differ("GIDs", strconv.Itoa(len(p.GIDs)), gids)
	return differences
}

// Two ranks are walked through the bring-up by hand; after each step the kernel has
// the queue pairs as status shows them, and as the step was to make them.
func TestSteps(t *testing.T) {
	seats := onRXE(1, 2)
	firstPSN := func(rank int) uint32 { return uint32(4096 + 1000*rank) }
	var ranks []*member
	for rank := range seats {
		ranks = append(ranks, sit(t, seats, rank, "shell"))
	}
	var said [2]string // by the last line of each rank
	enter := func(text string, who ...*member) {
		t.Helper()
		var before [2]int
		for _, m := range who {
			before[m.rank] = len(m.stdout.String())
			own := strings.ReplaceAll(text, "PSN", fmt.Sprint(firstPSN(m.rank)))
			if _, err := io.WriteString(m.stdin, own+"\nshow timeout\n"); err != nil { // show tells that it is over
				t.Fatalf("rank %d: %q: %v\n%s%s", m.rank, text, err, m.stdout, m.stderr)
			}
		}
		for _, m := range who {
			m.await(t, "end of "+text, 2*deadline, func(stdout string) bool {
				said[m.rank] = stdout[before[m.rank]:]
				return strings.Contains(said[m.rank], `"command":"show"`)
			})
		}
	}
	step := func(state, text string, who ...*member) {
		t.Helper()
		enter(text, who...)
		enter("status", ranks...)
		for _, m := range ranks {
			kernel, err := ibvtest.ParseQPs(strings.NewReader(inVM(t, m.seat.node, "rdma", "resource", "show", "qp", "-j")))
			if err != nil {
				t.Fatal(err)
			}
			compared, differences, err := ibvtest.CompareQPs(kernel, m.rank, strings.NewReader(said[m.rank]))
			if err != nil {
				t.Fatal(err)
			}
			kernel = slices.DeleteFunc(kernel, func(q ibvtest.QP) bool { return q.Type != "RC" })
			expected := 2
			if state == "" {
				expected = 0
			}
			if compared != expected || len(kernel) != expected {
				t.Errorf("after %s: rank %d: %d queue pairs in the kernel, %d in status, expected %d\n%s%s", text, m.rank, len(kernel), compared, expected, said[m.rank], m.stderr)
			}
			for _, difference := range differences {
				t.Errorf("after %s: rank %d: %s", text, m.rank, difference)
			}
			for _, q := range kernel {
				// What was asked for, too: the two may agree on something else.
				bad := q.State != state
				bad = bad || (text == "rtr" || text == "rts") && q.RQPSN != firstPSN(1-m.rank)
				bad = bad || text == "rts" && q.SQPSN != firstPSN(m.rank)
				if bad {
					t.Errorf("after %s: rank %d: the kernel has %+v, expected %s, with the PSNs of init", text, m.rank, q, state)
				}
			}
		}
	}
	step("", "open", ranks...)
	step("INIT", "init --psn PSN", ranks...)
	step("INIT", "exchange", ranks...)
	step("RTR", "rtr", ranks...)
	step("RTS", "rts", ranks...)
	step("RTS", "ping right --iters 5", ranks[0]) // the other answers: the PSNs have moved
	step("RESET", "reset", ranks...)
	step("INIT", "init --psn PSN", ranks...)
	for _, m := range ranks {
		if err := m.stdin.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, m := range ranks {
		if code := m.code(t, deadline); code != 0 {
			t.Errorf("rank %d: exit code %d\n%s%s", m.rank, code, m.stdout, m.stderr)
		}
	}
}
