// Package fabric is a network of up to some ten thousand nodes under a virtual clock, for
// tests of what is said about networks: who is slow, what an operation should take, what
// grows with the number of ranks. Events carry it, not goroutines, and one seed gives one run.
// Nothing but tests imports it.
//
// What a network is made of is in [Ports]: each node's port has a rate each way, each directed
// pair a latency, perhaps a rate of its own and losses, and groups of nodes a thin link between
// them. A message queues at the sender's port, on the pair's and the groups' link, and at the
// receiver's port, first come, first served, and is passed on while it still comes in
// (cut-through): four messages to one port take four times as long there.
//
// There are two networks over such ports, alike to those who use them ([Network]):
//
//	Packets   queue pairs of package rc under their own timers, every packet encoded, lost or
//	          checked where it arrives, by package simnet
//	Messages  an event for each message at its receiver's port, and one for its arrival
//
// The second is for thousands of ranks. TestMessagesAreSumsOfPackets holds it against the
// first. It leaves out: the window of a queue pair, that packets of several messages take turns
// where they queue, acknowledgements beyond their sender's port (where buffers have no end as here,
// those behind others' data on a thin link would make the way back slow, too), and losses: a pair
// that loses packets needs Packets. Neither has buffers that overflow, pauses (PFC) or congestion marks.
package fabric
