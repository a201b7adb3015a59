#!/bin/sh
# A sweep as a Slurm job array of SHARDS tasks, and a job after it that makes the table of all of them in all.csv:
#
#   sh slurm.sh grid.yaml 8
set -eu
grid=$1 shards=$2
mkdir -p parts
array=$(sbatch --parsable --job-name=sweep --array="1-$shards" --output=parts/log-%a.txt \
	--wrap "replay sweep '$grid' --shard \$SLURM_ARRAY_TASK_ID/$shards --out parts/part-\$SLURM_ARRAY_TASK_ID.json")
sbatch --parsable --job-name=sweep-merge --dependency="afterok:$array" \
	--wrap "replay sweep merge 'parts/part-*.json' --out all.csv --overwrite"
