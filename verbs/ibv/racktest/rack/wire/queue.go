package wire

import (
	"io"
	"sync"
)

// Queue is a pipe without a limit: the writer never waits for the reader, so that
// one command whose output nobody reads does not hold up the others of its stream.
type Queue struct {
	mu     sync.Mutex // guards the rest
	filled sync.Cond
	chunks [][]byte
	closed bool
}

// NewQueue returns an empty queue.
func NewQueue() *Queue {
	q := &Queue{}
	q.filled.L = &q.mu
	return q
}

// Put appends b, which the queue owns from then on. After Close it is dropped.
func (q *Queue) Put(b []byte) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if !q.closed && len(b) > 0 {
		q.chunks = append(q.chunks, b)
		q.filled.Signal()
	}
}

// Close ends the queue: what is in it can still be read.
func (q *Queue) Close() {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.closed = true
	q.filled.Broadcast()
}

// Read waits for bytes or the end.
func (q *Queue) Read(b []byte) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	for len(q.chunks) == 0 {
		if q.closed {
			return 0, io.EOF
		}
		q.filled.Wait()
	}
	n := copy(b, q.chunks[0])
	if n == len(q.chunks[0]) {
		q.chunks = q.chunks[1:]
	} else {
		q.chunks[0] = q.chunks[0][n:]
	}
	return n, nil
}
