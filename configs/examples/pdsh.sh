#!/bin/bash
# A check of hosts by pdsh, which knows no ranks: pdsh.sh node0,node1,node2 [ringcli's flags]
# Each host is told the list, and finds its own place in it (%n is pdsh's number of the
# host, in the order of the list). The exit code is the gravest of all ranks.
set -euo pipefail

if (($# == 0)); then
    echo "usage: ${0##*/} HOST,HOST... [FLAG...]" >&2
    exit 3
fi
hosts=$1
shift
# ssh is what knows %n. All hosts at once (-f), since the first wait for the last: pdsh by
# itself has 32 at a time.
exec "${PDSH:-pdsh}" -R ssh -f 10000 -S -w "$hosts" \
    "${RINGCLI:-ringcli} connect --list '$hosts' --index %n --check $*"
