#!/bin/sh
# Slurm's HealthCheckProgram: looks at the node every now and then. In slurm.conf:
#   HealthCheckProgram=/etc/slurm/slurm-health-check.sh
#   HealthCheckInterval=300
#   HealthCheckNodeState=IDLE
# It says what is wrong in one line, writes metrics, and ends in 1; else in 0. It never
# drains a node: whoever wants that calls it, and decides:
#   reason=$(slurm-health-check.sh 2>&1) ||
#       scontrol update NodeName="$(hostname -s)" State=DRAIN Reason="$reason"
#
# What it reads of /etc/ringcli/slurm.env, or of the file that RINGCLI_ENV names:
#   RINGCLI=/usr/bin/ringcli   the program
#   RINGCLI_TEXTFILES=DIR      where node_exporter's textfile collector looks
env=${RINGCLI_ENV:-/etc/ringcli/slurm.env}
# shellcheck source=/dev/null
if [ -r "$env" ]; then . "$env"; fi
ringcli=${RINGCLI:-ringcli}
textfiles=${RINGCLI_TEXTFILES:-/var/lib/prometheus/node-exporter}
unset RINGCLI RINGCLI_ENV RINGCLI_TEXTFILES # they are no settings

if [ -d "$textfiles" ] && [ -w "$textfiles" ]; then
    set -- --metrics "$textfiles/ringcli.prom"
else
    set --
fi
said=$("$ringcli" doctor "$@" 2>&1 >/dev/null)
code=$?
if [ "$code" -le 1 ]; then # a warning is for the metrics
    exit 0
fi
reason=$(printf '%s\n' "$said" | grep -v '^{' | tail -1 | cut -c1-400)
echo "${reason:-ringcli: exit code $code of $ringcli doctor}" >&2
logger -t ringcli -- "$reason" 2>/dev/null
exit 1
