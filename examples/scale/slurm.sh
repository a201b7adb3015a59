#!/bin/sh
# Submits a sweep as a Slurm job array with one task for each shard, and a job that merges their tables into all.csv.
# The arguments are the grid and the number of shards:
#
#   sh slurm.sh grid.yaml 8
set -eu
grid=$1 shards=$2
mkdir -p parts
array=$(sbatch --parsable --job-name=sweep --array="1-$shards" --output=parts/log-%a.txt \
	--wrap "replay sweep '$grid' --shard \$SLURM_ARRAY_TASK_ID/$shards --out parts/part-\$SLURM_ARRAY_TASK_ID.json")
sbatch --parsable --job-name=sweep-merge --dependency="afterok:$array" \
	--wrap "replay sweep merge 'parts/part-*.json' --out all.csv --overwrite"
