package device

import (
	"context"
	"errors"
	"fmt"
	"time"

	"ringcli/verbs/route"
)

// carrierComes is how long an interface that was just set up may take to have its carrier: the
// kernel looks at links once a second. carrierLook is the pause between two looks.
const carrierComes, carrierLook = 1500 * time.Millisecond, 50 * time.Millisecond

// AwaitCarrier opens a device, again while its interface has no carrier yet.
func AwaitCarrier(ctx context.Context, open func() (*Device, error)) (*Device, error) {
	within, cancel := context.WithTimeout(ctx, carrierComes)
	defer cancel()
	for begun := time.Now(); ; {
		d, err := open()
		if _, ok := errors.AsType[*route.CarrierError](err); !ok {
			return d, err
		}
		select {
		case <-time.After(carrierLook):
		case <-within.Done():
			return nil, fmt.Errorf("%w; its carrier was awaited for %s", err, time.Since(begun).Round(carrierLook))
		}
	}
}
