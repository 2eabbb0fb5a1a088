package ring

import "context"

// Await is Broadcast for a rank other than 0 that waits for as long as its
// leader likes: no deadline but the context's limits it. It ends with the ring.
func (r *Ring) Await(ctx context.Context) ([]byte, error) {
	control, err := r.controlRing()
	if err != nil {
		return nil, err
	}
	ctx, cancel := r.whileAlive(ctx)
	defer cancel()
	return control.Broadcast(ctx, nil)
}

// AwaitNeighbours returns when both neighbours' queue pairs can receive.
func (r *Ring) AwaitNeighbours(ctx context.Context) error {
	check := func() error {
		if s, detail := r.stateOf(Left, Right); s < StateExchanged || s > StateReady {
			return &StepError{Step: awaiting, State: s, Detail: detail, Missing: map[bool]string{true: "exchange"}[s < StateExchanged]}
		}
		return nil
	}
	return r.attempt(ctx, awaiting, check, r.Barrier)
}

const awaiting = "wait for the neighbours"
