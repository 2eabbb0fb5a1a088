package ring

import "context"

// Await is Broadcast for a rank other than 0 that waits for as long as its
// leader likes: no deadline but the context's limits it. It ends with the ring.
func (r *Ring) Await(ctx context.Context) ([]byte, error) {
	r.mu.Lock()
	control, state := r.control, r.state
	r.mu.Unlock()
	if control == nil || state == StateClosed {
		return nil, &StepError{Step: "await", State: state, Missing: map[bool]string{true: "open"}[state == StateNew]}
	}
	ctx, cancel := r.whileAlive(ctx)
	defer cancel()
	return control.Broadcast(ctx, nil)
}
