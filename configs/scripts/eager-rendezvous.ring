# Where does eager end and rendezvous begin? The protocols by turns, side by side.
#   ringcli local -n 4 --device soft:lo -f eager-rendezvous
# Eager copies each segment through a slot of the neighbour: one message, and a
# copy. Rendezvous first tells or asks where the data goes: a handshake, no copy.
# In the second phase of all-reduce the receiver's address came with the first, so
# receiver-initiated needs neither. Below each table stand the copied bytes and the
# handshakes. Eager should be ahead while a vector is small, rendezvous when it is
# large.

# One phase: the copy against the handshake, and nothing else. The last lines say
# which is ahead from where on, and whether `--protocol auto` takes it there.
bench all-gather --protocol eager,rendezvous-write,rendezvous-read -b 1K -e 4M -f 8 --iters 10

# Both phases. The first is reduced out of the slot or out of where it landed, so
# eager copies only half of what it sends.
bench all-reduce --protocol eager,receiver-initiated,rendezvous-write,rendezvous-read -b 1K -e 4M -f 8 --iters 10
