// Package memfd is memory that processes of one host share, and how they find
// each other: an Arena is a memfd that peers can map, a Hub hands out its
// descriptor over a Unix socket, and a Peer is the process at the other end.
//
// Nothing has a name in a file system: memory is a memfd and the socket's address
// is abstract, so a killed process leaves nothing, and neither /dev/shm nor /proc
// is needed. An abstract address belongs to a network namespace; processes in two
// of them do not find each other. Only processes of one user are connected
// (SO_PEERCRED, asked by both ends).
//
// # Ownership and locks
//
// An arena belongs to its creator. A view of it belongs to the Peer through which
// it was asked for, and lives until the owner frees the arena or the Peer is closed.
// Callers that want one Peer for each process keep it themselves. When the owner
// frees it, zeroed pages take the view's place for a while: a reader that has not
// yet heard that an operation failed reads zeros instead of being killed by a
// fault.
//
// Each connection has a goroutine that reads and one that writes, so that freeing,
// mapping and closing do not wait for a process that is stopped. A hub's Close
// ends them all.
//
// Locks, in the order in which they are taken: Hub.mu; Peer.mu or Arena.mu;
// conn.mu.
package memfd
