package gpu

import (
	"context"
	"errors"
	"fmt"
	"math/bits"
	"slices"
	"strings"

	"ringcli/collective/agree"
	"ringcli/collective/gpu/kernels"
	"ringcli/collective/reduce"
	"ringcli/ring"
	"ringcli/verbs"
	"ringcli/verbs/gpu"
	"ringcli/verbs/route"
)

// Team is the ranks of a ring, each with a GPU. Its methods are called on all ranks in the same
// order, by one goroutine of each.
type Team struct {
	ring       *ring.Ring
	rank, size int
	device     *gpu.Device
	devices    []*gpu.Device // all that its runtime shows
	stream     *gpu.Stream
	rescue     *gpu.Stream // of what must not wait for the other one
	module     *gpu.Module
	kernels    map[string]*gpu.Function
	apart      string // why the devices do not reach each other; "" if they do
	arena      *gpu.Memory
	all        *Region     // the arenas of all ranks
	block      *gpu.Pinned // of the numbers, for the rescue: a half from the device, a half to it
	order      order
	small      int // calls by recursive doubling, whose buffers alternate
	opened     map[opening]*opened
	failure    error
}

// The arena of a rank: a line with a number from each rank, and then two sets of buffers for
// recursive doubling.
const lineBytes = 64

// buffers is how many a set has: the input, what each exchange leaves, and the result.
func (t *Team) buffers() int { return bits.Len(uint(t.size)) + 1 }

// numbers is the size of those that ranks tell each other, in bytes.
func (t *Team) numbers() int { return (t.size*lineBytes + 4095) / 4096 * 4096 }

func (t *Team) arenaBytes() int { return t.numbers() + 2*t.buffers()*RingAbove }

// buffer is where in an arena a buffer begins.
func (t *Team) buffer(set, i int) uint64 {
	return uint64(t.numbers() + (set*t.buffers()+i)*RingAbove)
}

// card is what a rank tells the others of itself.
type card struct {
	Host  string    `json:"host"`
	Place gpu.Place `json:"place"`
	PCI   string    `json:"pci"`
}

// Join makes a team of all ranks of a ring, this one with the GPU of a place. It fails on all
// ranks alike. Devices that do not reach each other are no failure: operations are then staged.
func Join(ctx context.Context, r *ring.Ring, place gpu.Place) (t *Team, err error) {
	t = &Team{
		ring: r, rank: r.Rank(), size: r.Size(), kernels: map[string]*gpu.Function{}, opened: map[opening]*opened{},
		order: order{last: -1, sent: make([]uint32, r.Size()), awaited: make([]uint32, r.Size())},
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, t.Close())
			t = nil
		}
	}()
	host := route.ThisHost()
	own := card{Host: host.BootID, Place: place}
	mine := t.open(place)
	if t.device != nil {
		own.PCI = t.device.PCI
	}
	cards, err := share(ctx, t, "devices", own, mine)
	if err != nil {
		return t, err
	}
	texts, err := gather(ctx, t, "device access", t.reaches(cards))
	if err != nil {
		return t, err
	}
	if i := slices.IndexFunc(texts, func(text string) bool { return text != "" }); i >= 0 {
		t.apart = texts[i]
		return t, nil
	}
	// The arenas show whether handles do what they should, as nothing else would.
	t.all, err = t.Region(ctx, t.arena.Addr(), t.arena.Len())
	if lack, ok := errors.AsType[*LackError](err); ok {
		t.apart, err = lack.Text, nil
	}
	return t, err
}

// open makes what a rank has of its own.
func (t *Team) open(place gpu.Place) (err error) {
	if t.device, err = gpu.Open(place); err != nil {
		return err
	}
	r, err := gpu.Load(place.Kind)
	if err != nil {
		return err
	}
	t.devices = r.Devices()
	if t.stream, err = t.device.NewStream(); err != nil {
		return err
	}
	if t.rescue, err = t.device.NewStream(); err != nil {
		return err
	}
	if t.arena, err = t.device.Alloc(t.arenaBytes()); err != nil {
		return err
	}
	if t.block, err = t.device.AllocPinned(2 * t.numbers()); err != nil { // a copy to other memory may wait for the device
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), t.ring.Timeout())
	defer cancel()
	if err := t.stream.Fill(t.arena.Addr(), 0, t.numbers()); err != nil {
		return err
	}
	return t.stream.Wait(ctx)
}

// reaches tells why this rank's device does not reach the others', or what else it lacks; "" is
// that it does.
func (t *Team) reaches(cards []card) string {
	own := cards[t.rank]
	me := t.named(t.rank, own)
	for rank, peer := range cards {
		if peer.Host != own.Host {
			return fmt.Sprintf("%s and %s are on two hosts", me, t.named(rank, peer))
		}
		if peer.Place.Kind != own.Place.Kind {
			return fmt.Sprintf("%s and %s are of two runtimes", me, t.named(rank, peer))
		}
		if peer.PCI == own.PCI {
			continue
		}
		there := slices.IndexFunc(t.devices, func(d *gpu.Device) bool { return d.PCI == peer.PCI })
		if there < 0 {
			return fmt.Sprintf("%s is not shown that of %s, %s", me, t.named(rank, peer), peer.PCI)
		}
		if link, err := t.device.Link(t.devices[there]); err != nil {
			return err.Error()
		} else if !link.Access {
			return fmt.Sprintf("%s and %s do not reach each other's memory", me, t.named(rank, peer))
		}
	}
	if err := t.load(); err != nil {
		return fmt.Sprintf("%s: %v", me, err)
	}
	// An order that a driver has not is refused when it is asked for.
	if err := errors.Join(t.stream.Write(t.arena.Addr(), 0), t.stream.Await(t.arena.Addr(), 0)); err != nil {
		return fmt.Sprintf("%s: %v", me, err)
	}
	return ""
}

func (t *Team) named(rank int, c card) string { return fmt.Sprintf("rank %d (%s)", rank, c.Place) }

// load brings the kernels to the device.
func (t *Team) load() (err error) {
	image := kernels.PTX()
	if t.device.Place.Kind == gpu.HIP {
		if image, err = t.device.Compile("kernels.hip", kernels.HIP); err != nil {
			return err
		}
	}
	t.module, err = t.device.Module(image)
	return err
}

// kernel is that of a step.
func (t *Team) kernel(op reduce.Op, typ reduce.Type) (f *gpu.Function, err error) {
	name, _ := kernels.Name(op, typ)
	if f = t.kernels[name]; f == nil {
		if f, err = t.module.Function(name); err == nil {
			t.kernels[name] = f
		}
	}
	return f, err
}

// Device is this rank's.
func (t *Team) Device() *gpu.Device { return t.device }

// Release lets go of the other ranks' memory. No operation may follow. Once all ranks have
// done so, each may free its own: before, what a peer does with it is undefined (CUDA Driver
// API, cuIpcOpenMemHandle).
func (t *Team) Release() error {
	if t.all == nil {
		return nil
	}
	return t.all.release()
}

// Close lets go of the devices' memory. No rank may be in an operation. Ranks that leave
// together have met after their Release; it meets nobody itself, since ranks also close alone.
func (t *Team) Close() error {
	return errors.Join(t.Release(), t.stream.Close(), t.rescue.Close(), t.module.Close(), t.arena.Free(), t.block.Free())
}

// gather gives every rank's value to every rank.
func gather[T any](ctx context.Context, t *Team, what string, mine T) ([]T, error) {
	return agree.Gather(ctx, t.ring, ring.Purpose{What: what, Do: "share its " + what}, mine)
}

// told is a value, or why a rank has none.
type told[T any] struct {
	Value T      `json:"value"`
	Error string `json:"error,omitempty"`
	Lacks bool   `json:"lacks,omitempty"` // a device, or memory of one
}

// LackError is what ranks have not that an operation takes. All ranks get the same one.
type LackError struct {
	Text string
	// Lacks is that one has no such device, or too little memory: nothing went wrong.
	Lacks bool
}

func (e *LackError) Error() string { return e.Text }

// share is gather, of values that a rank may fail to have: then all fail, with a *LackError that
// has the words of each that did.
func share[T any](ctx context.Context, t *Team, what string, mine T, err error) ([]T, error) {
	own := told[T]{Value: mine}
	if err != nil {
		own.Error, own.Lacks = err.Error(), errors.Is(err, gpu.ErrUnavailable) || errors.Is(err, verbs.ErrNoMemory)
	}
	all, failed := gather(ctx, t, what, own)
	if failed != nil {
		return nil, errors.Join(err, failed)
	}
	values, words, lacks := make([]T, len(all)), []string(nil), true
	for rank, a := range all {
		if values[rank] = a.Value; a.Error != "" {
			words, lacks = append(words, fmt.Sprintf("rank %d: %s", rank, a.Error)), lacks && a.Lacks
		}
	}
	if len(words) > 0 {
		return nil, &LackError{strings.Join(words, "; "), lacks}
	}
	return values, nil
}
