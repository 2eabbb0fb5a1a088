// Package bootstrap finds the neighbours of a rank over TCP, exchanges what they
// need to connect their queue pairs, and keeps the two connections open as the
// control ring: liveness, gather, broadcast, barrier, questions to a neighbour, the
// comparison of clocks, and the verdict that tells every survivor who is at fault
// (package verdict makes it of what the ranks have seen).
//
// # Connections
//
// Rank r dials its right neighbour r+1 and is dialled by its left neighbour r-1;
// the edge between them is numbered by the dialler. A ring of one dials itself,
// and in a ring of two both edges join the same pair of ranks.
//
//	dialler                             listener
//	   │ ── hello (list, index, edge) ──▶ │  checks; or reject, and both fail
//	   │ ◀─ welcome ───────────────────── │
//	   │ ── info ───────────────────────▶ │  clockwise, index 0 first
//	   │ ◀─ info ──────────────────────── │  the other way round, index 0 first
//	   │ ◀─ parts, heartbeat, verdict ──▶ │  the control ring
//	   │ ◀─ ask, answer, cancel, info ──▶ │  between the two alone
//	   │ ◀─ goodbye ────────────────────▶ │
//
// A frame is the magic "RNGC", a big-endian length and that many bytes of JSON,
// so that tcpdump -A shows what nodes say to each other. Whoever sends anything
// else is counted in the trace and hung up on; bring-up goes on. So it does when a
// hello of another version or with another list comes from whom the left neighbour, where
// the list has it, does not say to be: that caller alone is told, and fails.
//
// Where the ranks have a token, the handshake of token.go comes first, for probes too,
// and all frames that follow are sealed. Until a caller has shown who it is, its frames
// are small, the whole takes three seconds at most, and few wait at a time (lobby).
//
// # Between two neighbours
//
// Either end of a connection may ask the other something at any time after the exchange.
// An ask frame has the asker's number for the question, its kind, its payload and
// how long the asker waits; the answer has the number, and a payload or an error;
// cancel says that nobody waits any more. Frames keep their order on a connection, so an
// info that was sent before a question is there when the question is. A question
// for the time is answered by the reader itself, and four timestamps, taken when
// frames are written and read, say how far the two trace clocks are apart: in a
// burst after the exchange, and once a second.
//
// # The parts of a Control
//
// A Control owns its parts, and each part has its own state and one lock:
//
//	node        which rank this is: constant, but for the addresses of the list
//	members     the processes of the ranks
//	neighbours  the two connections; each connection has its queue, its writer and its reader
//	greeter     accepts callers, compares lists and ranks, and makes the left connection
//	dialler     calls the right neighbour until the connection is up
//	tally       counts the attempts to connect, both ways
//	foreign     callers that do not belong here
//	prober      calls other ranks and asks them how they are; has no state
//	exchanger   the values that the neighbours publish in Exchange
//	gathers     Gather and Broadcast
//	asks        questions and answers, and the comparison of clocks
//	liveness    what this rank sees of its neighbours and is told by the others
//	outcome     how far the ring has come, the verdict that settles, and the one that counts
//	waiter      waits for other ranks, and what this rank says that it does
//	changes     wakes all waits; lifetime ends all goroutines
//
// A part that holds its lock may call one that stands below it in this order: neighbours,
// liveness, gathers and asks, outcome, then a connection, members and tally. Readers handle
// frames and never write to a socket, so that a ring of full sockets cannot lock itself up;
// writers alone write, from a queue. Close ends all goroutines and returns when they are gone.
package bootstrap
