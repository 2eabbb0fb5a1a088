// Package turns counts a stream of positions that several channels carry by turns: position
// k goes over channel k modulo their number. So both ends know by which channel the next
// one comes, and each channel, which keeps its order, knows which position it brings next.
package turns

// Counter says of each channel which position it brings next.
type Counter struct {
	next []int // by channel
}

// Reset begins a stream over so many channels.
func (c *Counter) Reset(channels int) {
	if cap(c.next) < channels {
		c.next = make([]int, channels)
	}
	c.next = c.next[:channels]
	for i := range c.next {
		c.next[i] = i
	}
}

// Next is the position that a channel brings next.
func (c *Counter) Next(channel int) int { return c.next[channel] }

// Has tells whether a position was brought.
func (c *Counter) Has(position int) bool {
	if len(c.next) == 1 {
		return c.next[0] > position
	}
	return c.next[position%len(c.next)] > position
}

// Take notes that a channel has brought its next position.
func (c *Counter) Take(channel int) { c.next[channel] += len(c.next) }

// Whole is how many positions from the first on were brought, without a gap.
func (c *Counter) Whole() int {
	least := c.next[0]
	for _, n := range c.next[1:] {
		least = min(least, n)
	}
	return least
}
