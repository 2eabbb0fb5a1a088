# Accepts a cluster. On every node, with its own index:
#   ringcli connect --index I --list node0,node1,... -f rack-bring-up
# The exit code says it all: 0 all is well, 1 it works but is slow, 2 it does not.

# Every link by itself: a slow one has a long p50 here.
ping
expect --warning rtt.p50 <= 10000

# Both ends of every edge, and what was counted so far.
status
counters

# Every collective under every protocol, each element checked.
self-check

# Small, middle, large. Set the bound on busbw (GB/s) to what the links can do.
all-reduce --size 4K --check
expect wrong == 0
all-reduce --size 1M --check
expect wrong == 0
expect --warning busbw >= 0.01
all-reduce --size 16M --iters 5 --check
expect wrong == 0
expect --warning busbw >= 0.01

# What grew: local_ack_timeout_err and out_of_sequence mean lost packets,
# rnr_nak_retry_err a rank that is starved.
counters --all
expect --warning --where name=local_ack_timeout_err delta == 0
expect --warning --where name=out_of_sequence delta == 0
