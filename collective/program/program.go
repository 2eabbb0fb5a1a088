// Package program says what a rank does round the ring: its steps, and in which order the
// segments of their chunks go.
package program

// Primitive is what a rank does with one chunk in one step of the ring, as a set
// of actions in this order: receive it from the left, reduce it with the own
// contribution, put it into the receive buffer, send it to the right.
type Primitive uint8

const (
	// The actions, and the primitives made of them.
	DoRecv Primitive = 1 << iota
	DoReduce
	DoCopy
	DoSend

	Send               = DoSend
	RecvReduceSend     = DoRecv | DoReduce | DoSend
	recvReduceCopy     = DoRecv | DoReduce | DoCopy
	recvReduceCopySend = DoRecv | DoReduce | DoCopy | DoSend
	recvCopySend       = DoRecv | DoCopy | DoSend
	recv               = DoRecv | DoCopy
)

// Step applies a primitive to a chunk.
type Step struct {
	Do    Primitive
	Chunk int
}

// Program is the list of a rank's steps. Every step but the first receives what
// the left neighbour sent in its step before, and every step but the last sends:
// that is what makes a list of steps two streams of positions. The engine runs
// the program once for each segment, with several segments in flight.
//
// A program of a chain moves the whole vector, as one chunk, from neighbour to neighbour,
// one hop each: its first step is what the rank sends, of which its second is what it
// receives, unless it is at the end of the chain where the vector sets out.
type Program struct {
	Rank, Size int
	Root       int // of a chain
	Steps      []Step
	// Chain: the segments go along a chain of ranks.
	Chain                bool
	FromNobody, ToNobody bool // of a chain: nothing comes, or goes
}

// add appends a step; the chunk is taken modulo the ring's size.
func (p *Program) add(do Primitive, chunk int) {
	p.Steps = append(p.Steps, Step{do, (chunk + 2*p.Size) % p.Size})
}

// Chunk c sets out at rank c+1 and is complete at rank c, one full turn less a
// hop. So a rank begins with the chunk of its left neighbour, and what reaches
// it in step k left home k hops ago.

// ReduceScatter makes the program of that operation.
func (p *Program) ReduceScatter() {
	p.reducePartials()
	p.add(recvReduceCopy, p.Rank)
}

// AllGather makes the program of that operation.
func (p *Program) AllGather() {
	p.add(Send, p.Rank)
	p.gatherOthers()
}

// AllReduce is reduce-scatter and all-gather made one at the step where a
// chunk's owner completes it: the result sets out on its second turn at once.
func (p *Program) AllReduce() {
	p.reducePartials()
	p.add(recvReduceCopySend, p.Rank)
	p.gatherOthers()
}

// Write makes a program, of the root if it has one, in the memory of an old one.
func (p *Program) Write(write func(*Program), root int) {
	*p = Program{Rank: p.Rank, Size: p.Size, Root: root, Steps: p.Steps[:0]}
	write(p)
}

// Broadcast is a chain from the root to the right, to its left neighbour.
func (p *Program) Broadcast() {
	p.chain(p.Root, Send, recvCopySend, recv)
}

// Reduce is a chain from the root's right neighbour to the right, to the root.
func (p *Program) Reduce() {
	p.chain(p.Root+1, Send, RecvReduceSend, recvReduceCopy)
}

// chain makes the program of the chain that begins at a rank: of what the first does, those
// within, and the last.
func (p *Program) chain(first int, begin, within, end Primitive) {
	at := (p.Rank - first + 2*p.Size) % p.Size
	p.Chain, p.FromNobody, p.ToNobody = true, at == 0, at == p.Size-1
	send, receive := within, within
	if at == 0 {
		send = begin
	}
	if at == p.Size-1 {
		receive = end
	}
	p.Steps = append(p.Steps, Step{Do: send}, Step{Do: receive})
}

func (p *Program) reducePartials() {
	p.add(Send, p.Rank-1)
	for k := 2; k < p.Size; k++ {
		p.add(RecvReduceSend, p.Rank-k)
	}
}

func (p *Program) gatherOthers() {
	for k := 1; k < p.Size-1; k++ {
		p.add(recvCopySend, p.Rank-k)
	}
	p.add(recv, p.Rank+1)
}
