# Proves a ring: every link, and every collective by every algorithm that any
# ring has, and under every protocol.
# Run it with `ringcli connect ... -f FILE`, or with --check.

ping

reduce-scatter --size 1M --algorithm ring --protocol eager --check
reduce-scatter --size 1M --algorithm ring --protocol rendezvous-write --check
reduce-scatter --size 1M --algorithm ring --protocol rendezvous-read --check
reduce-scatter --size 1M --algorithm recursive-doubling --check
reduce-scatter --size 1M --algorithm tree --check

all-gather --size 1M --algorithm ring --protocol eager --check
all-gather --size 1M --algorithm ring --protocol rendezvous-write --check
all-gather --size 1M --algorithm ring --protocol rendezvous-read --check
all-gather --size 1M --algorithm recursive-doubling --check
all-gather --size 1M --algorithm tree --check

all-reduce --size 1M --algorithm ring --protocol eager --check
all-reduce --size 1M --algorithm ring --protocol rendezvous-write --check
all-reduce --size 1M --algorithm ring --protocol rendezvous-read --check
all-reduce --size 1M --algorithm recursive-doubling --check
all-reduce --size 1M --algorithm tree --check
