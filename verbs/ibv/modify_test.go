//go:build !nodl

package ibv_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	"ringcli/verbs"
)

// What the kernel refuses comes back with its errno and the offender marked; the
// queue pair stays as it is.
func TestRefusedByTheKernel(t *testing.T) {
	p := newPost(t)
	own, err := p.Context.QueryGID(p.Port, p.GIDIndex)
	if err != nil || !own.GID.Addr().Is4() {
		t.Skipf("GID %d of port %d is not an IPv4 address: %v", p.GIDIndex, p.Port, err)
	}
	for _, step := range []struct {
		state verbs.QPState
		mask  verbs.AttrMask
	}{{verbs.StateReset, 0}, {verbs.StateInit, verbs.AttrPKeyIndex | verbs.AttrPort | verbs.AttrAccess}} {
		if err := p.qp.Modify(verbs.QPAttr{State: step.state, PortNum: p.Port}, verbs.AttrState|step.mask); err != nil {
			t.Fatal(err)
		}
	}
	err = p.qp.Modify(verbs.QPAttr{
		State: verbs.StateRTR, PathMTU: verbs.MTU1024, DestQPN: 17, RQPSN: 5, AH: verbs.AHAttr{
			PortNum: p.Port, IsGlobal: true, GRH: verbs.GlobalRoute{DGID: verbs.GID{0: 0xfd, 15: 1}, SGIDIndex: p.GIDIndex},
		},
	}, verbs.AttrState|verbs.AttrAV|verbs.AttrPathMTU|verbs.AttrDestQPN|verbs.AttrRQPSN|verbs.AttrMaxDestRDAtomic|verbs.AttrMinRNRTimer)
	var refusal *verbs.ModifyError
	if !errors.As(err, &refusal) || !errors.Is(err, verbs.ErrInvalid) || !errors.Is(err, syscall.EINVAL) {
		t.Fatalf("an IPv6 peer from an IPv4 GID: %v, want a *ModifyError of the kernel's EINVAL", err)
	}
	for _, text := range []string{"INIT→RTR", "ah_attr.grh.dgid fd00::1", "address families", ">>> ah_attr {", "path_mtu 1024", "rq_psn 0x5", "dest_qp_num 0x000011"} {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not speak of %q", err, text)
		}
	}
	if got, _, err := p.qp.Query(); err != nil || got.State != verbs.StateInit {
		t.Errorf("refused, but now in %s: %v", got.State, err)
	}
}
