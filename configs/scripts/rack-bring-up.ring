# Accepts a cluster. On every node, with its own index:
#   ringcli connect --index I --list node0,node1,... -f rack-bring-up
# The exit code says it all: 0 all is well, 1 it works but is slow, 2 it does not.

# Every link by itself: a slow one has a long p50 here. Measured were 9 us over shared
# memory and 35 in software: 1 ms is a link that sends again, or a host without CPU.
ping
expect --warning rtt.p50 <= 1000

# Both ends of every edge, and what was counted so far.
status
counters

# Every collective under every protocol, each element checked.
self-check

# Small, middle, large. The ring is as fast as its slowest link: half the active rate of
# the slowest port where hardware moves the data. For software the bound is a three-hundredth of
# what a core can move, for the fastest iteration, which other work on a host spoils least.
all-reduce --size 4K --check
expect wrong == 0
all-reduce --size 1M --iters 200 --check
expect wrong == 0
expect --warning --if-there best >= 0.0035*possible
all-reduce --size 16M --iters 5 --check
expect wrong == 0
expect --warning --if-there busbw >= 0.5*rate

# What grew, of devices that count it: local_ack_timeout_err and out_of_sequence mean
# lost packets, the first also a software device without CPU, rnr_nak_retry_err a rank
# that is starved.
counters --all
expect --warning --if-there --where name=local_ack_timeout_err delta == 0
expect --warning --if-there --where name=out_of_sequence delta == 0
