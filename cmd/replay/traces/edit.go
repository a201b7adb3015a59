package traces

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/edit"
	"github.com/replay-llm/replay/replay/collector"
)

// newConvertCommand returns the command convert, which writes a trace in another format.
func newConvertCommand(s cli.Streams) *cobra.Command {
	e := editing{s: s}
	return cli.BindGroups(&cobra.Command{
		Use:   "convert IN [OUT]",
		Short: "Convert a trace to another format or block size",
		Example: `  replay traces convert azure_2023_conv.csv conv.jsonl
  replay traces convert bailian.jsonl --block-size 512 --out b.jsonl.gz`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.editOne(cmd.Context(), args, func(from *reader, to *target) error {
				return edit.Scale{}.Run(from, to)
			})
		},
	}, e.read.group(), cli.NewGroup("What is written", e.write.bindFlags))
}

// editing holds the flags of commands that make a trace from other traces.
type editing struct {
	s     cli.Streams
	read  reading
	write writing
}

// openFrom opens a trace for an edit. again reports whether the edit reads the trace twice.
func (e *editing) openFrom(ctx context.Context, path string, again bool) (*reader, error) {
	from, err := e.read.openSource(ctx, e.s, path)
	if err != nil {
		return nil, err
	}
	from.options.Graph, from.options.Tasks = e.write.holdsGraph(), false
	if again {
		if err := from.checkReread(); err != nil {
			return nil, err
		}
	}
	return from, from.findBlocks()
}

// editOne runs an edit of one trace.
func (e *editing) editOne(ctx context.Context, args []string, do func(*reader, *target) error) error {
	path, err := e.write.inOut(args)
	if err != nil {
		return err
	}
	from, err := e.openFrom(ctx, path, false)
	if err != nil {
		return err
	}
	to, err := e.write.openTarget(e.s, from.block, from.raw)
	if err != nil {
		return err
	}
	return to.endFile(do(from, to), from)
}

// newSampleCommand returns the command sample, which keeps a part of a trace.
func newSampleCommand(s cli.Streams) *cobra.Command {
	e := editing{s: s}
	e.read.seeded = true
	var p edit.Sample
	var from, to float64
	return cli.BindGroups(&cobra.Command{
		Use:   "sample IN [OUT]",
		Short: "Keep a part of a trace, by whole conversations",
		Long: `Keep a part of the conversations of a trace. The requests of a kept conversation
and their shared prefixes are unchanged. With the same seed, a larger fraction
contains all conversations of a smaller fraction.`,
		Example: `  replay traces sample requests.jsonl part.jsonl --fraction 0.1
  replay traces sample requests.jsonl part.jsonl --sessions 500 --keep-prefixes`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := checkSample(cmd.Flags(), from, to, p.Fraction, p.Common); err != nil {
				return err
			}
			p.From, p.To, e.read.seed = from*1000, to*1000, p.Seed
			return e.editOne(cmd.Context(), args, func(in *reader, out *target) error {
				if err := in.checkReread(); err != nil {
					return err
				}
				kept, err := p.Run(in, out)
				if err == nil {
					printKept(s.Err, kept)
				}
				return err
			})
		},
	}, cli.NewGroup("Sample", func(fs *pflag.FlagSet) {
		fs.Float64Var(&p.Fraction, "fraction", 0, "random `share` of conversations; 0: all")
		fs.IntVar(&p.Sessions, "sessions", 0, "random `number` of conversations; 0: all")
		fs.IntVar(&p.Head, "head", 0, "first `number` of conversations; 0: all")
		fs.Float64Var(&from, "from", 0, "keep conversations that start at this `second` or later")
		fs.Float64Var(&to, "until", 0, "keep conversations that start before this `second`; 0: all")
		fs.BoolVar(&p.KeepPrefixes, "keep-prefixes", false, "keep or drop conversations with a common prefix together")
		fs.IntVar(&p.MinShared, "min-shared-blocks", 1, "leading `blocks` in common that connect conversations for --keep-prefixes")
		fs.Float64Var(&p.Common, "common", 0.5, "blocks in more than this `share` of conversations do not connect them")
		fs.BoolVar(&p.Rescale, "rescale", false, "compress the arrival times, so that the request rate stays the same")
		fs.Uint64Var(&p.Seed, "seed", options.DefaultSeed, "seed of the random draw, a `number`")
	}), e.read.group(), cli.NewGroup("What is written", e.write.bindFlags))
}

func printKept(w io.Writer, k *edit.Kept) {
	reuse := ""
	if k.ReuseKnown {
		reuse = fmt.Sprintf("; an infinite cache reuses %s %% of their prompt tokens, %s %% of all", formatPercent(k.Reuse), formatPercent(k.OfReuse))
	}
	fmt.Fprintf(w, "replay: kept %s of %s conversations, %d of %d requests%s\n", k.Sessions, k.OfSessions, k.Requests, k.OfRequests, reuse)
}

func formatPercent(share float64) string {
	return strconv.FormatFloat(math.Round(share*1000)/10, 'f', -1, 64)
}

// newScaleCommand returns the command scale, which changes the rate and the lengths of a trace.
func newScaleCommand(s cli.Streams) *cobra.Command {
	e := editing{s: s}
	var p edit.Scale
	return cli.BindGroups(&cobra.Command{
		Use:   "scale IN [OUT]",
		Short: "Change the request rate and the lengths of a trace",
		Long: `Change the request rate and the lengths of a trace. Shared prefixes are scaled
with the prompts.`,
		Example: `  replay traces scale requests.jsonl fast.jsonl --rate 2
  replay traces scale requests.jsonl long.jsonl --input 1.5 --output 0.5`,
		RunE: func(cmd *cobra.Command, args []string) error {
			factors := []string{"rate", "delays", "input", "output"}
			if err := cmp.Or(wantOne(cmd.Flags(), "what to scale", factors...), wantAbove(cmd.Flags(), 0, false, factors...)); err != nil {
				return err
			}
			return e.editOne(cmd.Context(), args, func(in *reader, out *target) error { return p.Run(in, out) })
		},
	}, cli.NewGroup("Scale", func(fs *pflag.FlagSet) {
		fs.Float64Var(&p.Rate, "rate", 1, "`factor` of the arrival rate")
		fs.Float64Var(&p.Delays, "delays", 1, "`factor` of the delays between the requests of a conversation")
		fs.Float64Var(&p.Input, "input", 1, "`factor` of the lengths of prompts")
		fs.Float64Var(&p.Output, "output", 1, "`factor` of the lengths of answers")
	}), e.read.group(), cli.NewGroup("What is written", e.write.bindFlags))
}

// newAnonymizeCommand returns the command anonymize, which replaces names and ids of a trace.
func newAnonymizeCommand(s cli.Streams) *cobra.Command {
	e := editing{s: s}
	var p edit.Anonymize
	var ids string
	return cli.BindGroups(&cobra.Command{
		Use:   "anonymize IN [OUT]",
		Short: "Replace names, ids and texts of a trace",
		Long: `Replace the names, ids and texts of a trace: hash ids by numbers in order of
appearance, conversation names by s0, s1, …, and texts by ids of their blocks.
Times start at the first arrival. Unknown fields are dropped.

Lengths, times and shared prefixes are kept, and can identify users.`,
		Example: `  replay traces anonymize requests.jsonl public.jsonl --round-ms 100`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := wantAbove(cmd.Flags(), 0, true, "round-ms"); err != nil {
				return err
			}
			return e.editOne(cmd.Context(), args, func(in *reader, out *target) (err error) {
				if p.First, err = in.firstArrival(); err != nil {
					return err
				}
				out.dense = nil // the edit gives numbers itself
				if ids == "" {
					return p.Run(in, out)
				}
				if p.IDs, err = readIDMap(ids, in.block); err != nil {
					return err
				}
				if err := p.Run(in, out); err != nil {
					return err
				}
				return writeIDMap(ids, p.IDs)
			})
		},
	}, cli.NewGroup("Anonymize", func(fs *pflag.FlagSet) {
		fs.Float64Var(&p.RoundMS, "round-ms", 0, "round times to multiples of `ms`")
		fs.StringVar(&ids, "id-map", "", "`FILE` that maps ids to numbers, so that parts of one trace get the same numbers; it contains the original ids")
		fs.StringVar(&e.read.keyFile, "key-file", "", "`FILE` with a secret key of at least 32 bytes for the ids of texts; only its owner may have read access")
	}), e.read.group(), cli.NewGroup("What is written", e.write.bindFlags))
}

// readIDMap reads the map from ids to numbers at path; the file may be missing.
func readIDMap(path string, block int) (*formats.Dense, error) {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return formats.NewDense(block), nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return formats.ReadIDMap(f, path, block)
}

// writeIDMap writes the map from ids to numbers to path. Only the owner may read the file.
func writeIDMap(path string, ids *formats.Dense) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	return collector.WriteFile(path, ids.WriteMap)
}

// newMergeCommand returns the command merge, which makes one trace of several traces.
func newMergeCommand(s cli.Streams) *cobra.Command {
	e := editing{s: s}
	var p edit.Merge
	return cli.BindGroups(&cobra.Command{
		Use:   "merge IN... --out OUT",
		Short: "Merge traces in the order of arrival",
		Long: `Merge traces of any formats in the order of arrival. Every file starts at time
0. Conversation names get the number of the file as a prefix, and files share no
hash ids, unless --shared-ids is set for parts of one trace.`,
		Example: `  replay traces merge chat.jsonl azure_2023_code.csv --out both.jsonl`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return e.mergeTraces(cmd.Context(), p, args)
		},
	}, cli.NewGroup("Merge", func(fs *pflag.FlagSet) {
		fs.BoolVar(&p.SharedIDs, "shared-ids", false, "treat equal ids and names in several files as the same")
		fs.BoolVar(&p.KeepTimes, "keep-times", false, "keep the arrival times of every file (default: every file starts at 0)")
	}), e.read.group(), cli.NewGroup("What is written", e.write.bindFlags))
}

func (e *editing) mergeTraces(ctx context.Context, p edit.Merge, paths []string) error {
	if len(paths) < 2 {
		return cli.Usagef("must be two trace files or more")
	}
	var from []edit.Source
	var sources []*reader
	var firsts []float64
	block, raw := 0, true
	for _, path := range paths {
		r, err := e.openFrom(ctx, path, true)
		if err != nil {
			return err
		}
		first, err := r.firstArrival()
		if err != nil {
			return err
		}
		if block == 0 {
			block = r.block
		}
		raw = raw && r.raw && r.block == block
		from, sources, firsts = append(from, r), append(sources, r), append(firsts, first)
	}
	to, err := e.write.openTarget(e.s, block, raw)
	if err != nil {
		return err
	}
	return to.endFile(p.Run(from, firsts, block, to), sources...)
}

// firstArrival returns the earliest arrival time after reading, in ms.
func (r *reader) firstArrival() (float64, error) {
	if r.path == "-" {
		return 0, nil
	}
	s, err := r.Open()
	if err != nil {
		return 0, err
	}
	defer s.Close()
	if !s.Raw() {
		return 0, nil // counted from the earliest already
	}
	first, found := 0.0, false
	err = formats.Each(s, func(rec *formats.Record) error {
		if rec.HasAt && (!found || rec.At < first) {
			first, found = rec.At, true
		}
		return nil
	})
	if err == nil && math.IsInf(first, 0) {
		err = &loadgen.SyntaxError{Name: s.Name, Msg: "arrivals are infinite, must be finite numbers"}
	}
	return first, err
}
