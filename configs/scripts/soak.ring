# Keeps a ring busy, and checks what comes of it. On every node:
#   ringcli connect --index I --list node0,node1,... -f soak
# For a real soak, copy these lines to a file and raise the durations: 1h, 12h.

# Wrong data is narrowed down at the end of each line: the edge that it came over, bits,
# runs, offset within page and packet, and times. all-gather shows bits as they travelled.

counters
all-reduce --size 1M --type float32 --op sum --protocol eager --duration 2s --check
all-reduce --size 4M --type float64 --op max --protocol rendezvous-write --duration 2s --check
all-reduce --size 4M --type bfloat16 --op avg --protocol rendezvous-read --duration 2s --check

# Growth of retries, timeouts or sequence errors: a bad cable, or a full buffer.
counters
reduce-scatter --size 4M --type int32 --op sum --duration 2s --check
all-gather --size 4M --type uint32 --duration 2s --check
counters
