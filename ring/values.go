package ring

import (
	"math"
	"slices"

	"ringcli/configs/usage"
	"ringcli/verbs"
)

// Values are what an operator gives a step instead of the proper values, to see
// what comes of it. nil takes the proper value. What is given goes to the queue
// pair as it is; the device alone judges it.
type Values struct {
	// Side limits a step to one edge; nil takes both.
	Side *Side

	// PSN is 24 bits: in Init this end's own first PSN, which Exchange
	// announces; in RTR what is expected first from the peer (rq_psn); in RTS
	// what this end sends first (sq_psn).
	PSN *uint32

	// Init alone. Receives is how many receives are posted, 0 to 128.
	Access    *verbs.Access
	PKeyIndex *int
	Port      *int
	Receives  *int

	// RTR alone. MTU is the path MTU in bytes.
	MTU             *int
	DestQPN         *uint32
	DGID            *verbs.GID
	SGIDIndex       *int
	SL              *int
	TrafficClass    *int
	HopLimit        *int
	MinRNRTimer     *int
	MaxDestRDAtomic *int

	// RTS alone. Timeout is the code of the ACK timeout.
	Timeout     *int
	RetryCnt    *int
	RNRRetry    *int
	MaxRDAtomic *int
}

// check refuses what the step does not take, and a side that is none.
func (v *Values) check(step string) error {
	if v.Side != nil && *v.Side != Left && *v.Side != Right {
		return usage.Errorf("%s: side %d: expected left or right", step, int(*v.Side))
	}
	for _, f := range []struct {
		name  string
		given bool
		steps []string
	}{
		{"access", v.Access != nil, []string{"init"}},
		{"pkey-index", v.PKeyIndex != nil, []string{"init"}},
		{"port", v.Port != nil, []string{"init"}},
		{"receives", v.Receives != nil, []string{"init"}},
		{"mtu", v.MTU != nil, []string{"rtr"}},
		{"dest-qpn", v.DestQPN != nil, []string{"rtr"}},
		{"dgid", v.DGID != nil, []string{"rtr"}},
		{"sgid-index", v.SGIDIndex != nil, []string{"rtr"}},
		{"sl", v.SL != nil, []string{"rtr"}},
		{"traffic-class", v.TrafficClass != nil, []string{"rtr"}},
		{"hop-limit", v.HopLimit != nil, []string{"rtr"}},
		{"min-rnr-timer", v.MinRNRTimer != nil, []string{"rtr"}},
		{"max-dest-rd-atomic", v.MaxDestRDAtomic != nil, []string{"rtr"}},
		{"qp-timeout", v.Timeout != nil, []string{"rts"}},
		{"retry-cnt", v.RetryCnt != nil, []string{"rts"}},
		{"rnr-retry", v.RNRRetry != nil, []string{"rts"}},
		{"max-rd-atomic", v.MaxRDAtomic != nil, []string{"rts"}},
	} {
		if f.given && !slices.Contains(f.steps, step) {
			return usage.Errorf("%s takes no %s: it is set by %s", step, f.name, f.steps[0])
		}
	}
	if v.Receives != nil && (*v.Receives < 0 || *v.Receives > recvDepth) {
		return usage.Errorf("init: receives %d: expected 0 to %d", *v.Receives, recvDepth)
	}
	return nil
}

// sides returns the edges that the step is for.
func (v *Values) sides() []Side {
	if v.Side != nil {
		return []Side{*v.Side}
	}
	return []Side{Left, Right}
}

// number is a field of a queue pair's attributes.
type number interface {
	~uint8 | ~uint16 | ~uint32 | ~int
}

// field is an attribute that a value is put into.
type field struct {
	name string
	from *int
	most uint64         // that it has room for
	put  func(int) bool // false if it does not fit
}

func into[T number](name string, from *int, to *T) field {
	most := uint64(math.MaxInt)
	if ones := ^T(0); ones > 0 { // unsigned
		most = uint64(ones)
	}
	return field{name, from, most, func(v int) bool {
		*to = T(v)
		return v >= 0 && int(*to) == v
	}}
}

// put puts the values that are given into their attributes. It refuses what the
// attribute has no room for: the device would be told something else.
func put(step string, fields ...field) error {
	for _, f := range fields {
		if f.from != nil && !f.put(*f.from) {
			return usage.Errorf("%s: %s %d does not fit into the attribute of the queue pair: expected 0 to %d", step, f.name, *f.from, f.most)
		}
	}
	return nil
}

// either returns what is given, else what is proper.
func either[T any](given *T, proper T) T {
	if given != nil {
		return *given
	}
	return proper
}
