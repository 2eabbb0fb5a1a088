package ring

import (
	"ringcli/configs/usage"
	"ringcli/verbs"
)

// completions is the capacity of the completion queue of a rank of a ring of n: for
// all requests on the channels of its two edges and on the edges of a mesh.
func completions(n, channels int) int {
	return 2*channels*(sendDepth+recvDepth) + MeshMost(n)*(meshSend+meshRecv)
}

// enough tells whether a device can do what the edges of a rank of a ring of n
// need. A limit of 0 is one that the device does not tell.
func enough(name string, d verbs.DeviceAttr, n, channels int) error {
	edges := 2*channels + MeshMost(n)
	for _, l := range []struct {
		attribute string
		has, need int
	}{
		{"max_qp", d.MaxQP, edges}, {"max_qp_wr", d.MaxQPWR, max(sendDepth, recvDepth)}, {"max_cqe", d.MaxCQE, completions(n, channels)},
		{"max_sge", d.MaxSGE, sendSGEs}, {"max_mr", d.MaxMR, 2 * edges},
	} {
		if l.has > 0 && l.has < l.need {
			return usage.Errorf("%s has %s %d: a ring of %d with %d channels needs at least %d: use another --device, or fewer --channels", name, l.attribute, l.has, n, channels, l.need)
		}
	}
	return nil
}
