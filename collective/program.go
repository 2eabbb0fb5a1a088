package collective

// primitive is what a rank does with one chunk in one step of the ring, as a set
// of actions in this order: receive it from the left, reduce it with the own
// contribution, put it into the receive buffer, send it to the right.
type primitive uint8

const (
	doRecv primitive = 1 << iota
	doReduce
	doCopy
	doSend

	send               = doSend
	recvReduceSend     = doRecv | doReduce | doSend
	recvReduceCopy     = doRecv | doReduce | doCopy
	recvReduceCopySend = doRecv | doReduce | doCopy | doSend
	recvCopySend       = doRecv | doCopy | doSend
	recv               = doRecv | doCopy
)

// step applies a primitive to a chunk.
type step struct {
	do    primitive
	chunk int
}

// program is the list of a rank's steps. Every step but the first receives what
// the left neighbour sent in its step before, and every step but the last sends:
// that is what makes a list of steps two streams of positions. The engine runs
// the program once for each segment, with several segments in flight.
type program struct {
	rank, size int
	steps      []step
}

// add appends a step; the chunk is taken modulo the ring's size.
func (p *program) add(do primitive, chunk int) {
	p.steps = append(p.steps, step{do, (chunk + 2*p.size) % p.size})
}

// Chunk c sets out at rank c+1 and is complete at rank c, one full turn less a
// hop. So a rank begins with the chunk of its left neighbour, and what reaches
// it in step k left home k hops ago.

func (p *program) reduceScatter() {
	p.reducePartials()
	p.add(recvReduceCopy, p.rank)
}

func (p *program) allGather() {
	p.add(send, p.rank)
	p.gatherOthers()
}

// allReduce is reduce-scatter and all-gather made one at the step where a
// chunk's owner completes it: the result sets out on its second turn at once.
func (p *program) allReduce() {
	p.reducePartials()
	p.add(recvReduceCopySend, p.rank)
	p.gatherOthers()
}

func (p *program) reducePartials() {
	p.add(send, p.rank-1)
	for k := 2; k < p.size; k++ {
		p.add(recvReduceSend, p.rank-k)
	}
}

func (p *program) gatherOthers() {
	for k := 1; k < p.size-1; k++ {
		p.add(recvCopySend, p.rank-k)
	}
	p.add(recv, p.rank+1)
}
