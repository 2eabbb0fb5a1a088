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
