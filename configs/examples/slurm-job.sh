#!/bin/bash
# A Slurm job that proves its nodes before it uses them: sbatch slurm-job.sh
# The ranks find each other by Slurm: neither --list nor --index is needed.
#SBATCH --job-name=ringcli-check
#SBATCH --nodes=2
#SBATCH --ntasks-per-node=1
#SBATCH --time=00:05:00
#SBATCH --output=ringcli-%j.out
set -euo pipefail

reports=${RINGCLI_REPORTS:-ringcli-${SLURM_JOB_ID:-local}}
unset RINGCLI_REPORTS # it is no setting
mkdir -p "$reports"

# Exit code 0 all is well, 1 it works but is slow, 2 it does not; then the job ends here,
# and its output and the reports say which rank or link is at fault.
srun "${RINGCLI:-ringcli}" connect --check --timeout 60s \
    --junit "$reports/rank%r.xml" --metrics "$reports/rank%r.prom"

# What the nodes are for comes here:
# srun ./train
