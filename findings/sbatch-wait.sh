#!/usr/bin/env bash
# Guess:   sbatch --wait returns within two seconds of the end of its job: slurmctld knows the
#          end at once, and srun returns at once.
# Version: Slurm 22.05.8 (Debian 12, packages 22.05.8-4+deb12u3).
# Seen:    srun true 0.6 s; sbatch --wait of true 2.2 s, of sleep 5 10.2 s, of sleep 14 42.2 s. The
#          client asks whether the job has ended and rests for longer after each question (about
#          2, 10 and 42 s after the start), so a job of 14 s seems to take three times as long.
# For:     a preflight check or a CI that waits with sbatch --wait: its time says little of the
#          check. Start the check with srun, or read the times from inside the job.
#
# As root, on Debian 12. Everything is in a temporary folder; traffic stays on loopback.
set -euo pipefail

dir=$(mktemp -d /tmp/sbw.XXXXXX)
pids=()
clean() {
    for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
    wait || true
    rm -rf "$dir"
}
trap clean EXIT

slurm=22.05.8-4+deb12u3 munge=0.5.15-2+deb12u1
cd "$dir"
# With what Debian's base system lacks of their libraries.
apt-get -q download "slurmctld=$slurm" "slurmd=$slurm" "slurm-client=$slurm" "slurm-wlm-basic-plugins=$slurm" \
    "munge=$munge" "libmunge2=$munge" libjwt0 libjansson4 libhwloc15 libnuma1 liblua5.3-0 >/dev/null
mkdir root state spool munge
for package in *.deb; do dpkg-deb -x "$package" root; done
# The packages name their programs sbatch-wlm and make links to them when they are installed.
for program in root/usr/{bin,sbin}/*-wlm; do ln -s "${program##*/}" "${program%-wlm}"; done
lib=$dir/root/usr/lib/$(uname -m)-linux-gnu
export LD_LIBRARY_PATH=$lib:$lib/slurm-wlm PATH=$dir/root/usr/bin:$dir/root/usr/sbin:$PATH SLURM_CONF=$dir/slurm.conf

host=$(hostname -s)
head -c 1024 /dev/urandom >munge.key
chmod 400 munge.key
cat >slurm.conf <<CONF
ClusterName=finding
SlurmctldHost=$host(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket=$dir/munge/socket
PluginDir=$lib/slurm-wlm
SlurmctldPort=26817
SlurmdPort=26818
StateSaveLocation=$dir/state
SlurmdSpoolDir=$dir/spool
SlurmctldPidFile=$dir/slurmctld.pid
SlurmdPidFile=$dir/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
SwitchType=switch/none
MpiDefault=none
ReturnToService=2
SlurmdParameters=config_overrides
NodeName=$host NodeAddr=127.0.0.1 CPUs=4 State=UNKNOWN
PartitionName=all Nodes=$host Default=YES State=UP
CONF
printf 'CgroupPlugin=cgroup/v1\nCgroupMountpoint=%s/cgroup\nCgroupAutomount=no\n' "$dir" >cgroup.conf

munged --foreground --force --key-file="$dir/munge.key" --socket="$dir/munge/socket" --pid-file="$dir/munge/pid" \
    --log-file="$dir/munge/log" --seed-file="$dir/munge/seed" >munged.out 2>&1 &
pids+=($!)
slurmctld -D -c >slurmctld.out 2>&1 &
pids+=($!)
slurmd -D -d "$dir/root/usr/sbin/slurmstepd" >slurmd.out 2>&1 &
pids+=($!)
for _ in $(seq 300); do
    [[ $(sinfo --noheader --format=%T 2>/dev/null) == idle* ]] && break
    sleep 0.1
done
if [[ $(sinfo --noheader --format=%T) != idle* ]]; then
    echo "the cluster has not come up"
    cat ./*.out
    exit 1
fi
sbatch --version

# seconds prints how long a command takes.
seconds() {
    local begun=$EPOCHREALTIME
    "$@" >/dev/null
    awk -v a="$begun" -v b="$EPOCHREALTIME" 'BEGIN { printf "%.1f\n", b - a }'
}
by_srun=$(seconds srun --quiet true)
at_once=$(seconds sbatch --quiet --wait --output=/dev/null --wrap true)
five=$(seconds sbatch --quiet --wait --output=/dev/null --wrap 'sleep 5')
fourteen=$(seconds sbatch --quiet --wait --output=/dev/null --wrap 'sleep 14')
echo "srun true: $by_srun s; sbatch --wait of true: $at_once s; of sleep 5: $five s; of sleep 14: $fourteen s"
awk -v r="$by_srun" -v o="$at_once" -v f="$five" -v l="$fourteen" \
    'BEGIN { exit !(r < 5 && o < 14 && f >= 10 && f < 20 && l >= 35 && l < 55) }' || {
    echo "this is not what was seen"
    exit 1
}
