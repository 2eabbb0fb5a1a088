package verbs_test

import (
	"errors"
	"strings"
	"syscall"
	"testing"

	. "ringcli/verbs"
)

func TestRefusedModify(t *testing.T) {
	v4 := GID{10: 0xff, 11: 0xff, 12: 10, 15: 1}
	row := &GIDEntry{GID: v4, Type: GIDTypeRoCEv2, NetDev: "eth7", Index: 3}
	for _, c := range []struct {
		errno    syscall.Errno
		dgid     GID
		global   bool
		offender AttrMask
		want     []string
	}{
		{syscall.ETIMEDOUT, v4, true, AttrAV, []string{"ah_attr.grh.dgid 10.0.0.1", "ip neigh show 10.0.0.1", "eth7", "connection timed out"}},
		{syscall.ENETUNREACH, v4, true, AttrAV, []string{"ah_attr.grh.dgid 10.0.0.1", "no route", "ip route get 10.0.0.1 oif eth7"}},
		{syscall.ENODEV, v4, true, AttrAV, []string{"ah_attr.grh.sgid_index 3", "network namespace"}},
		{syscall.EINVAL, GID{0: 0xfe, 1: 0x80, 15: 1}, true, AttrAV, []string{"ah_attr.grh.dgid fe80::1", "different address families"}},
		{syscall.EINVAL, GID{10: 0xff, 11: 0xff, 12: 224, 15: 1}, true, AttrAV, []string{"multicast"}},
		{syscall.EINVAL, v4, true, 0, []string{"does not say which", "dest_qp_num 0x000011"}},
		{syscall.EPERM, v4, true, 0, []string{"not permitted", "operation not permitted"}},
		{syscall.ETIMEDOUT, v4, false, 0, []string{"the driver refuses", "is_global 0"}},
	} {
		attr := goodAttr(StateInit, StateRTR)
		attr.AH.IsGlobal, attr.AH.GRH.DGID, attr.AH.GRH.SGIDIndex = c.global, c.dgid, 3
		mask := maskOf(kernelTable["INIT→RTR"].required) | AttrState
		err := RefusedModify(7, StateInit, &attr, mask, &ModifyPath{GID: row}, c.errno)
		var e *ModifyError
		if !errors.As(err, &e) || !errors.Is(err, ErrInvalid) || !errors.Is(err, c.errno) {
			t.Fatalf("%v is not a *ModifyError that wraps ErrInvalid and %v", err, c.errno)
		}
		if e.Offender != c.offender || e.From != StateInit || e.To != StateRTR {
			t.Errorf("%v: offender %s, %s→%s, want %s", c.errno, e.Offender, e.From, e.To, c.offender)
		}
		if c.offender == 0 != (e.Field == "") || !strings.HasPrefix(e.Reason, strings.TrimSpace(e.Field+" "+e.Value)) {
			t.Errorf("%v: %q is blamed, with the value %q: %s", c.errno, e.Field, e.Value, e.Reason)
		}
		for _, text := range append(c.want, "path_mtu 1024", "rq_psn 0x000001") {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q does not speak of %q", err, text)
			}
		}
		if marked := strings.Contains(err.Error(), ">>> ah_attr {"); marked != (c.offender == AttrAV) {
			t.Errorf("%q: ah_attr marked: %v", err, marked)
		}
		if strings.Contains(err.Error(), "\n") {
			t.Errorf("%q is more than one line", err)
		}
	}
}
