package lab

// What each step does and why, for students: lines of at most 78 columns.
const (
	explainDevice = `A device is the RDMA function of an adapter. It has ports, which are its
physical links, and each port has a table of GIDs, its addresses: on RoCE v2
an IP address, on InfiniBand the subnet's prefix and the port's own number.
Opening the device gives a context, from which everything else is made. The
port must be ACTIVE; the row of the GID table is what the packets' source
address will be.`
	explainPD = `A protection domain is the adapter's wall between programs, and between
parts of one: a queue pair reaches only memory that was registered in its own
PD. Both of this lab's queue pairs and both regions are made in this one.`
	explainCQ = `A completion queue is where the adapter says what it has finished: an entry
for each request, with its ID and a status. Both queue pairs of this lab
report to one. It has room for a fixed number of entries: one that overflows
is lost for good, so it must be as deep as what can be outstanding. The
channel lets a program sleep until there is something to poll.`
	explainMR = `To register memory pins its pages, so that they neither move nor are swapped
out, and gives the adapter their addresses. It comes with two keys. The lkey
goes into the own requests, to prove that the memory is registered. The rkey
is for the peer: whoever knows it and the address may WRITE and READ there, as
far as the access flags allow.`
	explainQP = `A queue pair is one end of a connection: a queue for what it sends and a
queue for where it receives. RC, reliable connected, is acknowledged, in order
and without duplicates, to one peer only. A new queue pair is in RESET: it has
a number, and nothing can be posted.`
	explainInit = `INIT binds the queue pair to a port and a partition (P_Key), and says what a
peer may do to the memory behind it. From here on receives can be posted, but
nothing is taken from the wire yet.`
	explainRTR = `RTR, ready to receive, needs to know the peer: its queue pair (dest_qp_num),
where that is (GID, or LID on InfiniBand), the PSN of its first packet
(rq_psn) and the path MTU, which both ends must have alike. What arrives from
now on is taken; nothing can be sent yet. Wrong values are not noticed here:
nothing is sent to check them.`
	explainRTS = `RTS, ready to send, needs what is one's own: the PSN of the first packet
(sq_psn), which the peer was told to expect, how long to wait for an ACK, and
how often to try again. The peer must be in RTR before the first packet comes.`
	explainRecv = `SEND is two-sided: a message lands in a receive that the other end has posted
before, the oldest first. Without one the receiver answers RNR, receiver not
ready, and the sender must try again later. So receives are posted first.`
	explainSend = `A send request has a list of pieces of memory (address, length, lkey), and
the adapter reads them itself. The sender learns from its completion that the
message was acknowledged, the receiver from its own that one has come, and how
long it is. The bytes are compared with what was sent.`
	explainPong = `The same the other way round: a connection has two directions, each with
PSNs of its own. A ping that comes back proves both.`
	explainWrite = `WRITE is one-sided: the request names the peer's address and rkey, and the
peer's adapter puts the bytes there. The peer posts nothing, and nothing tells
it: only the one that wrote gets a completion. What is in its memory now is
compared with what was written.`
	explainRead = `READ is the other one-sided request: the peer's adapter fetches the bytes
from its memory and sends them back. The completion says that they are here.`

	explainOpenC = `Each host opens its own device: nothing is known of the other end yet, but
its address, by which the device and the row of the GID table are chosen. The
protection domain (PD) walls in the memory that the queue pair may reach; the
completion queue (CQ) is where finished requests are reported.`
	explainInitC = `The queue pair is one end of the connection to the other host. It starts in
RESET; INIT binds it to a port and a partition, and says what the peer may do.`
	explainInfo = `Nothing in verbs finds a peer: both ends must tell each other, on some other
way, who they are. This is all that it takes. GID or LID say where the port
is, QPN which queue pair of it, PSN with what number its first packet comes;
raddr and rkey let the peer reach this end's memory.`
	explainExchange = `A TCP connection serves to swap the two structs: rank 0 listens, rank 1
connects, and each sends what it filled in. It stays open here, so that both
ends can tell of each step how it went; RDMA itself no longer needs it.`
	explainPost = `The receive comes first, on both ends, and the ends tell each other so over
TCP: a SEND that finds none is answered with RNR. Then each end posts its own.
To post is only to hand over: the call returns before anything has happened.`
	explainPoll = `To poll takes finished requests out of the completion queue and never waits:
it returns 0 if there is none. Two are due on each end: of its own SEND, once
it was acknowledged, and of its RECV, once the message was in its memory. Only
the status says whether it went well.`
	explainSendC = `What came must be what the other host sent: each rank has bytes of its own,
and every one of them is compared.`
	explainWriteC = explainWrite + `
First rank 0 writes into rank 1's memory, then the other way round.`
	explainReadC = explainRead + `
First rank 0 reads rank 1's memory, then the other way round.`
)

// What lab B says, before it begins and of what it prints.
const (
	ExplainReference = `Lab B is the reference sample, ibv_rc_pingpong of rdma-core, on two hosts. One
waits on TCP port 18515, the other calls it; the stock tool may be either:
  ibv_rc_pingpong -d DEVICE -g INDEX -s 1024          waits
  ibv_rc_pingpong -d DEVICE -g INDEX -s 1024 HOST     calls
On RoCE it needs -g, a row of its GID table; on InfiniBand the LID will do.
Both must have the same -s, -n and -m: nothing tells one of the other's.`
	ExplainLocal = `Device, PD, CQ, a registered buffer and a queue pair in INIT with 500 receives
posted are there now. What the peer must know of them is one line: LID (0 on
RoCE), queue pair number, PSN of the first packet, and GID. It goes over TCP
as text of 52 bytes.`
	ExplainRemote = `The other end's line has come. With it the queue pair goes to RTR, and then to
RTS; the server does so before it answers, so that the client may send at
once. TCP is done with. The client sends a message, the server takes it and
sends it back, and each posts its next send when its last one was acknowledged
and a message has come: 1000 times.`
	ExplainFigures = `The time is that of all messages there and back, and the bandwidth counts both
ways. There is never more than one message under way, so this is latency, not
what the link can carry: usec/iter is a round trip, half of it one way.`
)
