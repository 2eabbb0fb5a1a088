# Proves a ring: every link, and every collective under every protocol.
# Run it with `ringcli connect ... -f FILE`, or with --check.

ping

reduce-scatter --size 1M --protocol eager --check
reduce-scatter --size 1M --protocol rendezvous-write --check
reduce-scatter --size 1M --protocol rendezvous-read --check

all-gather --size 1M --protocol eager --check
all-gather --size 1M --protocol rendezvous-write --check
all-gather --size 1M --protocol rendezvous-read --check

all-reduce --size 1M --protocol eager --check
all-reduce --size 1M --protocol rendezvous-write --check
all-reduce --size 1M --protocol rendezvous-read --check
