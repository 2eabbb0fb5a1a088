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
// # What an edge lost
//
// The queue pairs of soft count for each edge what they send again. A receiver that lacks a
// packet asks for it with a NAK, which a busy machine does not make it do; a timer also runs
// out where a rank does not run. So NAKs on one edge, and not on the others, are a lossy
// edge, and come before all that its ends may have lacked. Only a rank that stood still
// explains them: it does not take what comes. A NIC counts for a port as a whole: its edges
// are judged by their flights alone.
//
// # Whose want of a CPU it is
//
// Where processes outnumber CPUs a rank is late since it does not run. The kernel counts
// for how long threads were ready to and had no CPU (/proc/self/task/*/schedstat). A rank
// had no CPU if it had none for twice as long as the other ranks, or had none and stood still for
// twice as long as they, by half of its lateness or more, and no packet is missing at it. Where
// all had none for about as long, nobody is named for it. Likewise of a slow edge: an end of it had no CPU for a fifth of the time,
// and for twice as long as the other ranks. Where all had none for so long, an edge is slow
// only if its shortest flight is, too: what waits for a CPU does so now and then.
//
// # What comes before all
//
// A port that lost its link and has it again explains what was lost and late meanwhile.
//
// # Which edge is slow
//
// A flight lasts from when a segment is posted until its receipt is here (under
// rendezvous-read: from the READ to its data): of no rank's business but that of the two
// ends. An edge is slow if its flights take several times as long as those of the other
// ranks' slowest edges, and neither end was late, which would explain it.
//
// A flight is data one way and a receipt the other. If rank r sends slowly, flights from r
// take long, and so do those to r, whose receipts r sends; if r receives slowly, likewise.
// Flights cannot tell which, and often the edge that carries no slow data is the slower one.
// So slow edges that have a rank in common are one finding, of that rank.
package lateness
