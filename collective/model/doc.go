// Package model estimates how long an operation takes, by closed formulas of its plan, as
// package collective makes it, and of the costs of a cluster's parts. It measures nothing.
//
// # What things cost
//
//	α  alpha     s       a message's way over an edge, beside its length
//	β  beta      s/byte  the inverse bandwidth of an edge, each way by itself
//	γ  gamma     s/byte  a reduction, per byte of one operand
//	κ  copy      s/byte  a copy by the CPU, as out of a slot
//	o  overhead  s       CPU time of a message, at each of its two ends
//	O  per byte  s/byte  CPU time of a message by its length, at each end: 0 where a
//	                     device moves the data
//	λ  line      s       a cache line's way to another core, for ranks that share memory
//
// α + sβ for a message of s bytes is Hockney's model ("The communication challenge for
// MPP: Intel Paragon and Meiko CS-2", Parallel Computing 20, 1994). That the CPU's part o
// is apart from the wire's, so that one overlaps with the other, is LogP and LogGP
// (Alexandrov, Ionescu, Schauser, Scheiman, "LogGP: incorporating long messages into the
// LogP model", SPAA 1995; its L is α, its G is β, and its gap g is o or more here). O is of
// LogGOPS (Hoefler, Schneider, Lumsdaine, "LogGOPSim: simulating large-scale applications
// in the LogGOPS model", HPDC 2010).
//
// # The textbook, and what differs
//
// Of Thakur, Rabenseifner and Gropp ("Optimization of collective communication operations
// in MPICH", IJHPCA 19, 2005), for a vector of V bytes on n ranks, p the largest power of
// two in n:
//
//	ring all-reduce       2(n-1)α + 2(n-1)/n Vβ + (n-1)/n Vγ
//	ring reduce-scatter    (n-1)α +  (n-1)/n Vβ + (n-1)/n Vγ;  all-gather without γ
//	doubling all-reduce     lg p (α + Vβ + Vγ)
//	halving reduce-scatter  lg p α + (p-1)/p V(β + γ);         all-gather by doubling without γ
//
// of a barrier, which moves nothing, the hops: (n-1)α round the ring, ⌈lg n⌉α by dissemination
// (Hensgen, Finkel and Manber, "Two algorithms for barrier synchronization", IJPP 17, 1988),
// along H hosts of L ranks, each with a port of its own, where α and β between hosts are those of
// the cluster and α' and β' those within a host (Cho et al., "BlueConnect", MLSys 2019, with each
// of its rings one exchange of all with all):
//
//	hierarchical all-reduce  2(α' + (L-1)/L Vβ') + 2(α + (H-1)/H V/L β) + ((L-1)/L + (H-1)/(HL)) Vγ
//
// where messages are counted, also within a host whose ranks share memory, which takes less; and
// of a binary tree, up and down, 2 lg n (α + Vβ) + 2 lg n Vγ. With segments that follow one another
// through d steps, the time of one is paid once and that of the slowest stage for each of the
// others: (d + S - 1) stages in place of d S (Träff, Ripke, Siebert, et al., "A pipelined algorithm
// for large, irregular all-gather problems", IJHPCA 24, 2010).
//
// Those hold where n is a power of two, o and κ are nothing and segments are one. The
// functions here take the plan as it runs: its segments, its depth, slots with a copy out
// of them, handshakes, ranks beyond a power of two. [Machine.Time] is held against an event simulation by the tests: half of the calls
// are within 3 % of it, and none is off by more than 35 %. make bench-model holds it against what is
// measured.
package model
