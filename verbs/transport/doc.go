// Package transport moves bytes from registered memory here to registered memory of one
// peer, over any provider of verbs, and tells the peer when they are there: one-sided
// writes and reads, with futures. It is for those who need no ring, as two processes that
// exchange tensors, caches or files.
//
//	server, client := New(…), New(…)               one at each end
//	url := server.Bind()                           goes to the peer by any way, as theirs comes
//	server.Connect(ctx, clientURL)                 waits for nobody
//	memory := client.Alloc(8192)                   or Register, or RegisterSlice
//	text := memory.Remote()                        goes to the peer, too
//	server.Write(ctx, view, remote, true)          a Future
//	client.WaitForWrite(ctx)                       a Future: resolved once a notifying write is here
//
// # Connecting
//
// A URL has all that a queue pair must know of its peer, so Connect takes the own queue
// pair to RTS and returns: two ends connect one after another in one goroutine. Each says
// hello, and says it anew while the peer has not connected. Writes and reads wait at their
// sender until both ends have heard each other, and for Options.Timeout at most.
//
//	         Bind           Connect              both have said hello
//	(new) ─────────▶ bound ─────────▶ connecting ─────────────────────▶ established
//	                                      │                                  │
//	                                      └───▶ failed: Err ◀────────────────┘
//
// # Messages
//
// A write is RDMA_WRITE, one that notifies RDMA_WRITE_WITH_IMM, a read RDMA_READ. Hello,
// goodbye and "are you there" are empty SEND_WITH_IMM. A reliable connection keeps all of
// them in order, so a notification tells of all writes before it, too.
//
// # Progress
//
// A Loop serves any number of transports. Transports of one loop on one device share the open
// device, its protection domain (so memory that one of them registers serves all of them) and a few
// completion queues. Whoever waits for a future polls, for all; one at a time. While
// nobody does, a goroutine of the device sleeps until something completes.
//
// # Ownership and locks
//
// The right to poll (adapter.token) is taken before a transport's lock, which guards its
// queues; that of the loop's list of completed futures is the innermost. A posted transfer
// holds its Memory until the device is done with it, however its future was resolved.
package transport
