package backend

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"ringcli/collective/async"
	"ringcli/collective/fifo"
	"ringcli/configs/usage"
	"ringcli/verbs/gpu"
	"ringcli/verbs/memory"
)

// vendor is a communicator of NCCL or RCCL, on a device of this process.
type vendor struct {
	*Factory
	lib        *library
	version    int // of the library
	rank, size int
	device     *gpu.Device
	stream     *gpu.Stream
	scratch    *gpu.Memory // of a barrier, which is an all-reduce of one element
	page       *memory.Block
	caller     thread
	timeout    func() time.Duration // of an operation that begins now
	communicator

	lock   fifo.Lock   // held by the operation that runs
	flying async.Queue // its own lock

	mu      sync.Mutex
	failure error // guarded by mu: why it was aborted; the first, never changed
	stuck   bool  // guarded by mu: a thread did not come back from the library, or the abort failed
	closed  bool  // guarded by mu
	kept    error // guarded by mu: of the abort that failed; the library has kept its memory
}

// idBytes is NCCL_UNIQUE_ID_BYTES.
const idBytes = 128

// hello is what each rank tells the others before a communicator is made.
type hello struct {
	ID      []byte `json:"id,omitempty"` // rank 0's
	Version int    `json:"version"`
	Error   string `json:"error,omitempty"`
}

// settlePatience is by how much ranks may differ at most in when they have met, and how long one
// may take from giving up a communicator to telling the others: little, but for a busy machine.
const settlePatience = 5 * time.Second

// Create makes the back end of a rank, together with the other ranks. It fails on all of
// them with one RanksError if it is not available to one, which is ErrUnavailable, or if one
// cannot make its communicator. Only where the ranks cannot hear each other the errors differ, as
// those of a rank whose ctx ends: World.Timeout limits each step by itself.
func (f *Factory) Create(ctx context.Context, w World) (Backend, error) {
	if f.library == "" {
		if w.Comm == nil {
			return nil, usage.Errorf("%s: no ring is given: expected one that is ready", f.name)
		}
		return &own{w.Comm, f.priority}, nil
	}
	if w.Gather == nil {
		return nil, usage.Errorf("%s: the ranks have no way to share its unique id: expected a gather over the control ring", f.name)
	}
	v := &vendor{Factory: f, rank: w.Rank, size: w.Size, timeout: w.timeout, communicator: newCommunicator()}
	mine, failed := v.open(w.Device)
	id, err := v.meet(ctx, w, mine, failed)
	if err == nil {
		err = v.joinAll(ctx, w, id)
	}
	if err != nil {
		v.abort(err)
		return nil, errors.Join(err, v.release())
	}
	return v, nil
}

// open finds the library and the device, and on rank 0 makes the unique id.
func (v *vendor) open(device int) (mine hello, err error) {
	if reason := v.Find().Reason; reason != nil {
		return mine, reason
	}
	if v.lib, err = load(v.library); err != nil {
		return mine, unavailable("%w", err)
	}
	r, err := gpu.Load(v.memory)
	if err != nil {
		return mine, unavailable("%w", err)
	}
	v.device = r.Devices()[device%len(r.Devices())]
	if v.page, err = memory.Alloc(4096); err != nil {
		return mine, err
	}
	v.caller = newThread(v.device)
	if v.stream, err = v.device.NewStream(); err != nil {
		return mine, err
	}
	if v.scratch, err = v.device.Alloc(barrierBytes); err != nil {
		return mine, err
	}
	if v.version, err = v.lib.version(); err != nil || v.rank > 0 {
		return hello{Version: v.version}, err
	}
	mine.Version = v.version
	at := v.page.Addr()
	if err := v.code("ncclGetUniqueId", int32(call(v.lib.getUniqueID, uintptr(at)))); err != nil {
		return mine, err
	}
	mine.ID = slices.Clone(v.page.Bytes()[:idBytes])
	return mine, nil
}

// tell tells the other ranks how this one is, and returns what they are, with the errors of those
// that have one.
func (v *vendor) tell(ctx context.Context, w World, mine hello, failed error) (all []hello, texts []string, err error) {
	if failed != nil {
		mine.Error = failed.Error()
	}
	text, err := json.Marshal(mine)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, w.timeout())
	defer cancel()
	parts, err := w.Gather(ctx, text)
	if err != nil {
		return nil, nil, errors.Join(failed, err)
	}
	all = make([]hello, len(parts))
	for rank, part := range parts {
		if err := json.Unmarshal(part, &all[rank]); err != nil {
			return nil, nil, errors.Join(failed, fmt.Errorf("%s: what rank %d says: %w", v.name, rank, err))
		}
		if e := all[rank].Error; e != "" {
			e = strings.TrimPrefix(e, ErrUnavailable.Error()+": ")
			texts = append(texts, fmt.Sprintf("rank %d: %s", rank, e))
		}
	}
	return all, texts, nil
}

// meet tells the other ranks what this one has found, and returns rank 0's unique id.
func (v *vendor) meet(ctx context.Context, w World, mine hello, failed error) ([]byte, error) {
	all, texts, err := v.tell(ctx, w, mine, failed)
	if err != nil {
		return nil, err
	}
	for rank, h := range all {
		if h.Error == "" && all[0].Error == "" && h.Version != all[0].Version {
			texts = append(texts, fmt.Sprintf("rank %d has version %s, and rank 0 %s: expected one", rank, formatVersion(h.Version), formatVersion(all[0].Version)))
		}
	}
	if len(texts) > 0 {
		return nil, ranksError(unavailable("%s: %s", v.name, strings.Join(texts, "; ")), failed)
	}
	if len(all[0].ID) != idBytes {
		return nil, ranksError(fmt.Errorf("%s: rank 0 has given a unique id of %d bytes: expected %d; do all ranks run the same version?", v.name, len(all[0].ID), idBytes), nil)
	}
	return all[0].ID, nil
}

// joinAll makes the communicator, of ranks that have just met, and fails on all if one cannot. The
// others wait for that one within the library, which they give up early enough for all to be
// told: the first that tells waits for the last for one timeout, from then on. So each tells
// before it cleans up, which may last.
func (v *vendor) joinAll(ctx context.Context, w World, id []byte) error {
	limit := w.timeout()
	limited, cancel := context.WithTimeout(ctx, limit-min(settlePatience, limit/2))
	defer cancel()
	clean := make(chan struct{})
	defer func() { <-clean }()
	go func() {
		defer close(clean)
		if err := v.join(limited, id); err != nil {
			v.abort(err) // of which the others' libraries may hear
		}
	}()
	select {
	case <-clean:
	case <-v.ending:
	}
	failed := errors.Unwrap(v.Err()) // why it was aborted, or nil
	_, texts, err := v.tell(ctx, w, hello{Version: v.version}, failed)
	if err == nil && len(texts) > 0 {
		err = ranksError(errors.New(strings.Join(texts, "; ")), failed)
	}
	if err != nil {
		return fmt.Errorf("%s: making a communicator of %d ranks: %w", v.name, v.size, err)
	}
	return nil
}

// stringOf copies a string of C.
func stringOf(at uintptr) string {
	const longest = 1024
	if at == 0 {
		return ""
	}
	for n := range longest {
		if memory.Bytes(uint64(at)+uint64(n), 1)[0] == 0 {
			return string(memory.Bytes(uint64(at), n))
		}
	}
	return string(memory.Bytes(uint64(at), longest))
}

// await runs what may block on the communicator's thread, until ctx ends: then the
// communicator is aborted, which is what lets a thread go that is within the library. A
// thread that does not come back all the same is left behind, also after another's abort.
func (v *vendor) await(ctx context.Context, what string, f func() error) error {
	begun := time.Now()
	done := v.caller.run(f)
	var gaveUp error
	select {
	case o := <-done:
		return o.err
	case <-v.over:
	case <-ctx.Done():
		gaveUp = fmt.Errorf("%s was given up after %s, which this rank or the others had not ended: %w", what, time.Since(begun).Round(time.Millisecond), context.Cause(ctx))
		v.abort(gaveUp)
	}
	select {
	case o := <-done:
		return cmp.Or(gaveUp, o.err)
	case <-time.After(abortPatience):
		v.strand()
		return cmp.Or(gaveUp, v.Err())
	}
}

// Rank, Size, Device and Err are as Backend has them.

func (v *vendor) Rank() int      { return v.rank }
func (v *vendor) Size() int      { return v.size }
func (v *vendor) Device() string { return v.device.Place.String() }

func (v *vendor) Err() error {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.failure == nil && v.closed {
		return fmt.Errorf("%s: %w", v.name, ErrClosed)
	}
	return v.failure
}

// Close destroys the communicator after the operations in flight and those that wait for their
// turn, which have deadlines of their own, and gives back its memory. One that was aborted is
// gone already.
func (v *vendor) Close() error {
	v.flying.Idle()
	if err := v.lock.Lock(context.Background()); err != nil {
		return err
	}
	defer v.lock.Unlock()
	v.mu.Lock()
	closed, failed := v.closed, v.failure != nil
	v.mu.Unlock()
	if closed {
		return nil
	}
	var err error
	if !failed {
		ctx, cancel := context.WithTimeout(context.Background(), closePatience)
		defer cancel()
		if err = v.await(ctx, "ncclCommDestroy", func() error { return v.destroy(ctx) }); err != nil {
			v.abort(err)
		}
	}
	return errors.Join(err, v.release())
}

// closePatience is how long the ranks may come apart to Close.
const closePatience = 10 * time.Second

// release gives back what is not the library's, after an abort that goes on.
func (v *vendor) release() (err error) {
	v.mu.Lock()
	v.closed = true
	failed := v.failure != nil
	v.mu.Unlock()
	if failed {
		<-v.over
	}
	v.mu.Lock()
	stuck, kept := v.stuck, v.kept
	v.mu.Unlock()
	v.caller.end()
	if stuck { // the library may be at work on it still
		return kept
	}
	err = errors.Join(v.scratch.Free(), v.stream.Close())
	if v.page != nil {
		err = errors.Join(err, v.page.Free())
	}
	return err
}
