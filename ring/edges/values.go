package edges

import (
	"math"
	"reflect"

	"ringcli/configs/usage"
	"ringcli/verbs"
)

// Values are what an operator gives a step instead of the proper values, to see
// what comes of it. nil takes the proper value. What is given goes to the queue
// pair as it is; the device alone judges it. The tags say which flag gives a value,
// and which step alone takes it.
type Values struct {
	// Side limits a step to one edge; nil takes both.
	Side *Side `flag:"side"`

	// PSN is 24 bits: in Init this end's own first PSN, which Exchange
	// announces; in RTR what is expected first from the peer (rq_psn); in RTS
	// what this end sends first (sq_psn).
	PSN *uint32 `flag:"psn"`

	// Init alone. Receives is how many receives are posted, 0 to 128.
	Access    *verbs.Access `flag:"access" step:"init"`
	PKeyIndex *int          `flag:"pkey-index" step:"init"`
	Port      *int          `flag:"port" step:"init"`
	Receives  *int          `flag:"receives" step:"init"`

	// RTR alone. MTU is the path MTU in bytes.
	MTU             *int       `flag:"mtu" step:"rtr"`
	DestQPN         *uint32    `flag:"dest-qpn" step:"rtr"`
	DGID            *verbs.GID `flag:"dgid" step:"rtr"`
	SGIDIndex       *int       `flag:"gid-index" step:"rtr"`
	SL              *int       `flag:"sl" step:"rtr"`
	TrafficClass    *int       `flag:"traffic-class" step:"rtr"`
	HopLimit        *int       `flag:"hop-limit" step:"rtr"`
	MinRNRTimer     *int       `flag:"min-rnr-timer" step:"rtr"`
	MaxDestRDAtomic *int       `flag:"max-dest-rd-atomic" step:"rtr"`

	// RTS alone. Timeout is the code of the ACK timeout.
	Timeout     *int `flag:"qp-timeout" step:"rts"`
	RetryCnt    *int `flag:"retry-cnt" step:"rts"`
	RNRRetry    *int `flag:"rnr-retry" step:"rts"`
	MaxRDAtomic *int `flag:"max-rd-atomic" step:"rts"`
}

// Check refuses what the step does not take, and a side that is none.
func (v *Values) Check(step string) error {
	if v.Side != nil && *v.Side != Left && *v.Side != Right {
		return usage.Errorf("%s: side %d: expected left or right", step, int(*v.Side))
	}
	fields := reflect.ValueOf(v).Elem()
	for i := range fields.NumField() {
		tag := fields.Type().Field(i).Tag
		if of := tag.Get("step"); of != "" && of != step && !fields.Field(i).IsNil() {
			return usage.Errorf("%s takes no %s: it is set by %s", step, tag.Get("flag"), of)
		}
	}
	if v.Receives != nil && (*v.Receives < 0 || *v.Receives > Receives) {
		return usage.Errorf("init: receives %d: expected 0 to %d", *v.Receives, Receives)
	}
	return nil
}

// Sides returns the edges that the step is for.
func (v *Values) Sides() []Side {
	if v.Side != nil {
		return []Side{*v.Side}
	}
	return []Side{Left, Right}
}

// number is a field of a queue pair's attributes.
type number interface {
	~uint8 | ~uint16 | ~uint32 | ~int
}

// Fit puts a value that is given into its attribute. It refuses what that has no room
// for: the device would be told something else.
func Fit[T number](name string, given *int, to *T) error {
	if given == nil {
		return nil
	}
	if *to = T(*given); *given >= 0 && int(*to) == *given {
		return nil
	}
	most := uint64(math.MaxInt)
	if ones := ^T(0); ones > 0 { // unsigned
		most = uint64(ones)
	}
	return usage.Errorf("%s %d does not fit into the attribute of the queue pair: expected 0 to %d", name, *given, most)
}

// Either returns what is given, else what is proper.
func Either[T any](given *T, proper T) T {
	if given != nil {
		return *given
	}
	return proper
}
