package device

import (
	"context"
	"errors"
	"strings"
	"testing"

	"ringcli/verbs"
	"ringcli/verbs/route"
)

// A carrier that comes a moment later is waited for; one that does not is told of, and any
// other error at once.
func TestAwaitCarrier(t *testing.T) {
	t.Parallel()
	none, other := verbs.OfKind(verbs.ErrPortDown, &route.CarrierError{}), errors.New("other")
	looks := 0
	d, err := AwaitCarrier(t.Context(), func() (*Device, error) {
		if looks++; looks < 3 {
			return nil, none
		}
		return &Device{Name: "soft:eth0"}, nil
	})
	if err != nil || d.Name != "soft:eth0" {
		t.Errorf("%v, %v: expected the device at the third look", d, err)
	}
	short, cancel := context.WithTimeout(t.Context(), 2*carrierLook)
	defer cancel()
	if _, err = AwaitCarrier(short, func() (*Device, error) { return nil, none }); !errors.Is(err, verbs.ErrPortDown) || !strings.Contains(err.Error(), "its carrier was awaited for") {
		t.Errorf("%v: expected to hear what was awaited", err)
	}
	if _, err = AwaitCarrier(t.Context(), func() (*Device, error) { return nil, other }); !errors.Is(err, other) {
		t.Errorf("%v: expected %v at once", err, other)
	}
}
