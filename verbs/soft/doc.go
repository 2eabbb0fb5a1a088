// Package soft is the verbs provider that needs no RDMA hardware: it speaks
// RoCEv2 (RC over UDP port 4791) in user space, packet for packet what NICs and
// Linux rdma_rxe speak. Every network interface with an address is a device,
// "soft:lo" or "soft:eth0".
//
// # Rooms
//
//	wire     headers and the invariant CRC
//	rc       the queue pair as a pure state machine
//	reorder  packets that came before others that are missing
//	udp      sockets with segmentation offload
//	soft     the verbs objects, and the endpoint that joins the three
//
// # Ownership and locks
//
// One endpoint per local IP address and UDP port is shared by all Contexts of
// the process; packets find their queue pair by number. The endpoint's lock
// guards the socket's buffers, every queue pair's state machine and the scratch
// memory of sending. A completion queue has a lock of its own, taken inside the
// endpoint's. Regions are looked up without a lock: closing one first removes
// it and then passes through the endpoint's lock once, after which nothing that
// saw it is still running.
//
// # Progress
//
// A caller that polls a completion queue makes the endpoint's progress, and PostSend
// sends at once what the window allows, and takes in what comes meanwhile. While
// nobody polls, a goroutine of the endpoint waits for the socket and does the same.
// ACKs are owed rather than sent: they ride behind data for the same peer, and leave
// by themselves when polls find the socket empty or many are owed; see acking.
package soft
