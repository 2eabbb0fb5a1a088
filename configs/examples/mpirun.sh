#!/bin/bash
# A check of hosts by mpirun, of Open MPI or MPICH: mpirun.sh node0,node1 [ringcli's flags]
# The ranks find each other by the launcher: neither --list nor --index is needed. Without
# hosts there are four ranks on this machine.
set -euo pipefail

ringcli=${RINGCLI:-ringcli}
mpirun=${MPIRUN:-mpirun}
unset RINGCLI # it is no setting
hosts=${1:-}
if (($# > 0)); then shift; fi

args=()
case $("$mpirun" --version 2>&1) in
*"Open MPI"* | *OpenRTE* | *PRRTE*)
    args+=(--oversubscribe)
    ((EUID != 0)) || args+=(--allow-run-as-root)
    ((${#hosts} == 0)) || args+=(--host "$hosts")
    ;;
*) # Hydra: MPICH, Intel MPI
    ((${#hosts} == 0)) || args+=(-hosts "$hosts")
    ;;
esac
if [[ -n $hosts ]]; then
    ranks=$(($(tr -cd , <<<"$hosts" | wc -c) + 1))
else
    ranks=4
fi
exec "$mpirun" -np "$ranks" "${args[@]}" "$ringcli" connect --check "$@"
