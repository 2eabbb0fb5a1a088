# A bring-up step by step, each step shown. On every node, with its own index:
#   ringcli shell --index I --list node0,node1,... -f by-hand
# Or type the lines in `ringcli shell --index I --list ...`, and look between them.

# 1. Listen, open the device: protection domain, completion queue.
open
# 2. Queue pairs RESET -> INIT; memory is registered, receives are posted.
init
# 3. Both neighbours are told QPN, PSN, GID, MTU, addresses and rkeys, over TCP.
exchange
# 4. INIT -> RTR, with the peer's values: packets are received from here on.
rtr
# 5. RTR -> RTS, with the own PSN: packets are sent from here on.
rts

# Does it work? qp shows both ends of an edge, and marks what does not agree.
status
ping left
ping right
qp right

# All ranks together: nobody leaves before the others are done.
all-reduce --size 64K --check
expect wrong == 0
