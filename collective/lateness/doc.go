// Package lateness tells, of a stretch of operations, which rank kept the others waiting
// and which edge was slow: two things that look alike to whoever waits.
//
// # What is kept
//
// Each rank keeps a [Record], as sums since it was taken last:
//
//   - arrival: when it entered an operation, and with that how long it was outside
//   - wait: how long it waited for other ranks, and of that for the first segment
//   - transfer: how long the data flowed from then on
//   - flight: of the edge whose segments took longest, how long they did
//
// It is made of time stamps that are taken anyhow, for the flight recorder: round the ring
// and over a mesh those of segments; over shared memory those of a wait that has begun to
// yield, so that a wait of some 10 us and less costs nothing and counts as none. With the
// recorder off (trace recorder off) nothing is kept but over shared memory.
//
// # Who is late
//
// No clocks are compared. Ranks that run the same operations one after the other take
// equally long for many of them, since none ends without all: what one rank does not
// wait, the others wait for it. So
//
//	lateness of r = median of what the other ranks waited - what r waited
//
// and that does not depend on the algorithm, nor on how a wait is passed on: in a ring
// the rank behind a late one waits, whoever is behind that one waits because of it, and
// all of them have waited for the one rank that has not. A slow edge makes everybody
// wait equally, the two at its ends included, so that nobody is late.
//
// A rank that stood still within a wait (SIGSTOP, a machine that was suspended) sees that
// time jump between two looks at its clock; that is not counted as a wait.
//
// # Whose want of a CPU it is
//
// Where processes outnumber CPUs a rank is late since it does not run. The kernel counts
// for how long threads were ready to and had no CPU (/proc/self/task/*/schedstat). Where
// that is half of a rank's lateness, or more, the machine is told, not the rank blamed; and
// likewise of an edge of which an end had none for a fifth of the time, unless its segments
// took longer than a CPU is waited for, and other ranks had none for as long.
//
// # Which edge is slow
//
// A flight lasts from when a segment is posted until its receipt is here (under
// rendezvous-read: from the READ to its data): of no rank's business but that of the two
// ends. An edge is slow if its flights take several times as long as those of the other
// ranks' slowest edges, and neither end was late, which would explain it.
package lateness
