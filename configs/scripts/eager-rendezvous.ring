# Where does eager end and rendezvous begin? The protocols by turns, side by side.
#   ringcli local -n 4 -f eager-rendezvous
# Eager copies each segment through a slot of the neighbour: one message, and a
# copy. Rendezvous first tells or asks where the data goes: one message more, no
# copy. Eager should be ahead while a vector is small, rendezvous when it is large.

# Small: the extra message shows.
bench all-reduce --protocol eager,rendezvous-write,rendezvous-read -b 64 -e 16K -f 4 --iters 10

# Large: the copy shows. The last lines say which is ahead from where on, and
# whether `--protocol auto` takes it there.
bench all-reduce --protocol eager,rendezvous-write,rendezvous-read -b 64K -e 4M -f 4 --iters 5
