#!/bin/sh
# Slurm's Prolog: keeps a job off a node that is not fit for it. In slurm.conf:
#   Prolog=/etc/slurm/slurm-prolog.sh
#   PrologFlags=Alloc
# It ends in 0 if the node may run the job. Else it says why in one line and ends in 1:
# Slurm then holds the job back and takes the node out of service by itself. Of that
# `scontrol show node` has "Reason=Prolog error", and the line as Comment; it is in slurmd's
# log and in the system's, too. As TaskProlog it says it in the job's output. It never
# drains a node by itself. Once the node is mended:
#   scontrol update NodeName=node7 State=RESUME Comment=
#
# What it reads of /etc/ringcli/slurm.env, or of the file that RINGCLI_ENV names:
#   RINGCLI=/usr/bin/ringcli   the program
#   RINGCLI_PEER=storage0      a host of the fabric that runs `ringcli transport serve
#                              --bind 0.0.0.0`: the link is tried with RDMA writes to it
#   RINGCLI_WAIT=10s           how long it may wait for the peer, each time
#   RINGCLI_BUSY=60            for how many seconds it calls a peer again that serves
#                              another node, as when the nodes of a job start together
#   export RINGCLI_DEVICE=soft what ringcli takes, as any setting of its own
#   RINGCLI_STRICT=1           a warning keeps the job off, too
env=${RINGCLI_ENV:-/etc/ringcli/slurm.env}
# shellcheck source=/dev/null
if [ -r "$env" ]; then . "$env"; fi
ringcli=${RINGCLI:-ringcli}
peer=${RINGCLI_PEER:-}
wait=${RINGCLI_WAIT:-10s}
busy=${RINGCLI_BUSY:-60}
strict=${RINGCLI_STRICT:-}
unset RINGCLI RINGCLI_ENV RINGCLI_PEER RINGCLI_WAIT RINGCLI_BUSY RINGCLI_STRICT # they are no settings

# refuse says why in one line, wherever Slurm or a person will look.
refuse() {
    reason="ringcli: $(printf '%s' "$1" | tr '\n' ' ' | cut -c1-400)"
    if [ "${SLURM_SCRIPT_CONTEXT:-}" = prolog_task ]; then
        echo "print $reason"
    fi
    echo "$reason" >&2
    if [ -n "${SLURMD_NODENAME:-}" ]; then # a Reason would give way to Slurm's
        scontrol update NodeName="$SLURMD_NODENAME" Comment="$reason ($(date +%FT%T))" >&2
    fi
    logger -t ringcli -- "$reason" 2>/dev/null
    exit 1
}

# 1: a warning; 2: no ring will come up here.
check() {
    until=$(($(date +%s) + busy))
    while
        said=$("$ringcli" "$@" 2>&1 >/dev/null)
        code=$?
        case $said in
        *' is busy: it serves '*) [ "$(date +%s)" -lt "$until" ] ;;
        *) false ;;
        esac
    do
        sleep 0.5
    done
    if [ "$code" -gt 1 ] || { [ "$code" -eq 1 ] && [ -n "$strict" ]; }; then
        why=$(printf '%s\n' "$said" | grep '^ringcli: ' | tail -1 | cut -d' ' -f2-)
        refuse "$why (exit code $code of ringcli $1)"
    fi
}

command -v "$ringcli" >/dev/null 2>&1 || refuse "$ringcli: no such program"
check doctor
if [ -n "$peer" ]; then
    check transport bench "$peer" --timeout "$wait" \
        -b 64K -e 64K --benchmark_filter='RdmaTransport_(Write|Read)' --benchmark_min_time=20x
fi
exit 0
