// Package ring brings up a ring of RDMA queue pairs and keeps watch over it: who
// is in the ring, how it came up, and who is to blame if it breaks. What the ring
// computes is package collective's matter.
//
//	r, err := ring.Connect(ctx, []string{"a", "b", "c"}, index, ring.Options{})
//	...
//	defer r.Close()
//
// Connect is nothing but the steps in order, and a shell walks them one by one:
//
//	Open      bind the TCP port, choose the address, open the device: PD, CQ, channel
//	Init      queue pairs to both neighbours with their memory, to INIT, receives posted
//	Exchange  find both neighbours over TCP, swap {gid, qpn, psn, mtu, slots, ...}
//	RTR       compare both ends, ready to receive
//	          (Connect waits here until both neighbours are, too: AwaitNeighbours)
//	RTS       ready to send
//	Ping      a message to the right neighbour and back over the queue pairs
//	Close     goodbye
//
// Each step takes Values that an operator gives instead of the proper ones. With
// Options.ByHand a step that fails can be repeated, and Reset takes the queue
// pairs back to where Init found them. How far the ring is, State asks the queue
// pairs; ranks that are walked and ranks that connect by themselves make one ring.
//
// # Parts
//
// A Ring is made of parts, each with the state that it needs: edgeTable (the edges, how far they
// have come, why the ring has failed), Control (what goes over TCP), poller, Host, Memory, Faults,
// Ends (both ends of an edge), Stalls (who keeps this rank waiting), Failure and pings. The files
// use each other in one order: exports, membership, options, edge, table, devices, the parts,
// ring, the steps, connect.
//
// # Beyond the ring
//
// The ring's two edges are enough for algorithms that go round. Mesh makes edges to
// other ranks when an operation needs them first: each rank names its peers for a
// purpose, all hear of it over the control ring, and the queue pairs come up as the
// ring's did. Such edges are smaller, live until Close or Reset, and fail with the
// ring. A rank has O(log n) of them at most, and in a small ring one to each other.
//
// # Channels
//
// With Options.Channels an edge to a neighbour has several queue pairs: its first channel
// keeps the others beside it (Edge.Channels), each with slots, receives and messages of its
// own. The ID of an edge has the channel, too, and with it the ID of each work request. All
// take the steps together, and the one that is behind, or in error, is how far the edge is.
// Exchange sends the data of all; ends with different numbers are told before RTR. Messages
// of the ring's own go over the first, but a ping of all ranks goes over each.
//
// # Who polls
//
// All edges share one completion queue, and a completion that the wrong one
// polls is lost to the right one. So whoever polls has the polling token: a step,
// an operation between Begin and End, or the pings of one neighbour, PingSide's
// own and those that neighbours ask this rank to answer. The latter run on
// goroutines of the control ring while the rank does nothing, share the token, and
// poll for each other. A rank that is busy says so to the one that pings it; a rank that
// wants to begin something waits until it has answered.
//
// Where several ranks of a host have each a process of their own, the thread that waits
// comes back to a CPU of its own (Options.CPUs, cpu.Affinity). A program that
// polls from one goroutine does well to lock it to its thread, as ringcli does.
//
// # The names of the C interface
//
// The ring was first described as a C library:
//
//	PGHandle                   *ring.Ring, and the *collective.Comm on top of it
//	connect_process_group      ring.Connect, then collective.New
//	pg_reduce_scatter          plain.ReduceScatter
//	pg_all_gather              plain.AllGather
//	pg_all_reduce              plain.AllReduce
//	pg_close                   Comm.Close, then Ring.Close
//	-myindex, -list            --index, --list
//	#define DEBUG 1            RINGCLI_DEBUG=1, or --trace
//
// The one struct became two objects because their lives differ: a ring can be
// walked through bring-up, pinged and diagnosed without any collective, and a
// collective needs nothing of how the ring came up. C's int results became
// errors, which say what was given, what was expected and what to do; usage.Is
// tells those of the command line from those of the network.
//
// # Failure
//
// The TCP connections of the exchange stay open. A neighbour whose connection
// ends without a goodbye is dead; whoever finds out sends a verdict both ways
// round the ring, so that every survivor learns who died. On each rank the queue
// pairs then go to ERR, which ends whatever is posted, and Failed reports true.
// A TCP connection that merely stalls harms nobody while the queue pairs work.
// What the device reports by itself is kept: a port that went down fails nothing,
// since links flap, but stands in the text of what fails then; a device or a queue
// pair that is lost fails the ring.
package ring
