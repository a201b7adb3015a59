package sweeps

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/plan"
)

// shardValue is the value of the flag --shard.
type shardValue struct{ plan.Shard }

// mostShards is the maximum number of shards of a sweep.
const mostShards = 100_000

func (v *shardValue) Type() string { return "i/n" }

func (v *shardValue) String() string {
	if v.Of == 0 {
		return ""
	}
	return v.Shard.String()
}

func (v *shardValue) Set(text string) error {
	first, last, _ := strings.Cut(text, "/")
	i, err := strconv.Atoi(first)
	n, errOf := strconv.Atoi(last)
	if err != nil || errOf != nil || n < 1 || n > mostShards || i < 0 || i > n {
		return fmt.Errorf("must be i/n, n at most %d and i at most n, as 1/8", mostShards)
	}
	v.Shard = plan.Shard{Index: (i + n - 1) % n, Of: n}
	return nil
}

// checkShard returns an error for table flags that are not supported with --shard, and for output files that cannot
// be written.
func (f *sweepFlags) checkShard(fs *pflag.FlagSet) error {
	if f.shard.Of == 0 {
		return f.table.Check()
	}
	for _, name := range []string{"output", "wide", "overwrite", "html", "gpu-cost", "wall-time", "journal"} {
		if fs.Changed(name) {
			return cli.Usagef("--%s is not supported with --shard: give it to replay sweep merge, which makes the table", name)
		}
	}
	if paths := f.table.Files.paths; len(paths) != 1 || f.table.Files.formOf(paths[0]) != "json" {
		return cli.Usagef("--shard requires one --out that ends in .json")
	}
	return nil
}

// newMergeCommand returns the command that merges the files of shards into a table.
func newMergeCommand(s cli.Streams) *cobra.Command {
	var f TableFlags
	return cli.BindOwn(&cobra.Command{
		Use:   "merge PART...",
		Short: "Make the table of a sweep from the files of its shards",
		Long: `Make the table of a sweep from the files that replay sweep --shard wrote, in
any order. The table equals that of a sweep in one process, byte for byte. A
missing, unfinished, duplicate or foreign shard is an error. A PART with *
matches several files.`,
		Example: `  replay sweep merge part-*.json --out all.csv
  replay sweep merge 'parts/*.json' --output json`,
		Args: cobra.MinimumNArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			if err := f.Check(); err != nil {
				return err
			}
			var paths []string
			for _, arg := range args {
				found, err := filepath.Glob(arg)
				if err != nil || len(found) == 0 {
					found = []string{arg} // reading this file reports the error
				}
				paths = append(paths, found...)
			}
			g, outcomes, err := plan.MergeParts(paths)
			if err != nil {
				return err
			}
			return f.Write(s, g, outcomes, readNotes(options.NewCellReader(), g.Cells()))
		},
	}, f.Bind)
}
