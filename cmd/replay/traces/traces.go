package traces

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/file"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/loadgen/formats/write"
	"github.com/replay-llm/replay/loadgen/generate"
)

// NewTracesCommand returns the command traces with its subcommands.
func NewTracesCommand(s cli.Streams) *cobra.Command {
	cmd := cli.BindOwn(&cobra.Command{
		Use:   "traces",
		Short: "Inspect, check, convert and edit trace files",
		Long: `Inspect, check, convert and edit trace files of any public format. The format
is detected from the contents of the file; docs/traces.md lists the formats.`,
		RunE: cli.WantCommand,
	}, func(*pflag.FlagSet) {})
	cmd.AddCommand(newInspectCommand(s), newValidateCommand(s), newConvertCommand(s), newSampleCommand(s),
		newMergeCommand(s), newScaleCommand(s), newAnonymizeCommand(s))
	return cmd
}

// reading holds the flags of commands about traces for reading a trace of any format.
type reading struct {
	format  cli.Choice
	open    options.LeftOpen
	block   int
	seed    uint64
	seeded  bool // another group has the seed
	keyFile string
}

// group returns the flags for reading a trace.
func (f *reading) group() cli.Group {
	return cli.NewGroup("Trace", f.bindFlags, "trace-format", "trace-block-size", "columns", "skip-bad")
}

func (f *reading) bindFlags(fs *pflag.FlagSet) {
	f.format = cli.Choice{Names: append([]string{"auto"}, registry.Names()...), Value: "auto"}
	fs.Var(&f.format, "trace-format", "`format` of the trace (docs/traces.md); auto: detected")
	fs.IntVar(&f.block, "trace-block-size", 0, "number of `tokens` per hash id, if the file does not set it; 0: 512, or the number of the format")
	f.open.Bind(fs, "")
	if !f.seeded {
		fs.Uint64Var(&f.seed, "seed", options.DefaultSeed, "seed of all random draws, a `number`")
	}
}

// reader reads a trace by the options of the flags. It implements Source.
type reader struct {
	ctx     context.Context
	s       cli.Streams
	path    string
	options formats.Options
	opened  *formats.Stream // standard input, opened already
	block   int             // tokens per hash id; settle sets it if raw is set
	raw     bool            // times and ids are not changed

	told   map[string]bool // bad rows and warnings that were listed
	listed int             // number of listed bad rows
	bad    int             // bad rows in one reading
	last   *formats.Stream // that was opened
}

// mostBadRows is the maximum number of listed bad rows.
const mostBadRows = 100

// openSource opens the trace at path with the options of the flags.
func (f *reading) openSource(ctx context.Context, s cli.Streams, path string) (*reader, error) {
	open, err := f.open.Values()
	if err != nil {
		return nil, err
	}
	o := formats.Options{Format: f.format.Value, TraceBlock: f.block, LeftOpen: open, Seed: f.seed, Strict: true, Check: true, Tasks: true, ReadLaw: generate.ReadDraw}
	if o.TraceBlock < 0 {
		return nil, cli.Usagef("--trace-block-size=%d: must be at least 1", o.TraceBlock)
	}
	if f.keyFile != "" {
		key, err := readKey(f.keyFile)
		if err != nil {
			return nil, err
		}
		o.Key = key
	}
	r := &reader{ctx: ctx, s: s, path: path, options: o, told: make(map[string]bool)}
	r.options.Stop = ctx.Err
	return r, nil
}

// readKey reads a secret key from a file that only its owner may read.
func readKey(path string) ([]byte, error) {
	stat, err := file.Stat(path)
	if err != nil {
		return nil, err
	}
	if mode := stat.Mode().Perm(); mode&0o077 != 0 {
		return nil, fmt.Errorf("%s: mode is %o, must be 600 or stricter", path, mode)
	}
	key, err := os.ReadFile(path)
	if err == nil && len(key) < 32 {
		err = fmt.Errorf("%s: has %d bytes, must have at least 32", path, len(key))
	}
	return key, err
}

// Open starts to read from the beginning. Each bad row is listed once, even if the file is read several times.
func (r *reader) Open() (*formats.Stream, error) {
	if s := r.opened; s != nil {
		r.opened = nil
		return s, nil
	}
	o, bad := r.options, 0
	if o.Bad == nil {
		o.Bad = func(err error) {
			bad++
			r.bad = max(r.bad, bad)
			if r.listed < mostBadRows && r.printOnce("skipped "+err.Error()) {
				r.listed++
			}
		}
	}
	o.Warn = func(text string) { r.printOnce("warning: " + text) }
	s, err := registry.OpenPath(r.path, r.s.In, o)
	r.last = s
	return s, err
}

// printOnce prints a note unless it was printed in an earlier reading of the file.
func (r *reader) printOnce(text string) bool {
	if r.told[text] {
		return false
	}
	r.told[text] = true
	fmt.Fprintln(r.s.Err, cli.FormatNote(text))
	return true
}

// printSkipped prints the number of skipped bad rows and of dropped requests.
func (r *reader) printSkipped() {
	if d := r.last.Dropped(); d.ZeroOutput+d.Other > 0 {
		d.Bad = 0
		fmt.Fprintf(r.s.Err, "replay: %s: dropped: %s\n", r.path, d)
	}
	if r.bad > 0 {
		fmt.Fprintf(r.s.Err, "replay: %s: %d bad rows skipped\n", r.path, r.bad)
	}
}

// findBlocks finds the block size and the time origin, which are needed before the first request is written. Standard
// input can be read only once, so that its first row is the origin.
func (r *reader) findBlocks() error {
	s, err := r.Open()
	if err != nil {
		return err
	}
	r.block, r.raw = s.Block, s.Raw()
	if r.path == "-" {
		r.opened = s
		return nil
	}
	defer s.Close()
	if !s.Raw() && !s.Untimed {
		r.options.Earliest, err = s.Earliest()
	}
	return err
}

// checkReread rejects a second reading of standard input.
func (r *reader) checkReread() error {
	if r.path == "-" {
		return cli.Usagef("-: the trace is read more than once, must be a file")
	}
	return nil
}

// writing holds the flags for the file and the format of a written trace.
type writing struct {
	to    cli.Choice
	lossy bool
	out   string
	block int

	chosen bool // the command line sets to
}

func (f *writing) bindFlags(fs *pflag.FlagSet) {
	f.to = cli.Choice{Names: write.Targets(), Value: "mooncake"}
	fs.Var(&f.to, "to", "`format` to write: mooncake, tasks or agentic_mooncake; with --lossy also vidur or azure")
	fs.BoolVar(&f.lossy, "lossy", false, "allow formats without hash ids and sessions")
	fs.StringVar(&f.out, "out", "", "`FILE` to write, compressed if it ends in .gz (default, and -: standard output)")
	fs.IntVar(&f.block, "block-size", 0, "`tokens` per hash id; 0: as in the trace")
}

// holdsGraph reports whether the output format supports dependency graphs of requests.
func (f *writing) holdsGraph() bool { return write.HoldsGraph(f.to.Value) }

// chooseGraph selects the format tasks by default, and rejects formats without graphs.
func (f *writing) chooseGraph() error {
	switch {
	case !f.chosen:
		f.to.Value = "tasks"
	case f.to.Value == "mooncake":
		return cli.Usagef("--to=mooncake: holds chains only, use --to tasks or agentic_mooncake with --agents")
	}
	return nil
}

// target writes a trace. It implements Sink.
type target struct {
	file    *write.Output
	writer  *write.Writer
	reblock *formats.Reblock
	dense   *formats.Dense // nil: ids stay as they are
	block   int            // tokens per hash id
	ids     bool           // the format has ids
	remarks io.Writer
}

// openTarget starts to write a trace that is read with blocks of the given size. Ids get new numbers unless raw is
// set.
func (f *writing) openTarget(s cli.Streams, block int, raw bool) (*target, error) {
	if write.Lossy(f.to.Value) && !f.lossy {
		return nil, cli.Usagef("--to=%s: loses ids and sessions, requires --lossy", f.to.Value)
	}
	if !write.Lossy(f.to.Value) && f.lossy {
		return nil, cli.Usagef("--lossy: %s loses nothing, use it with --to vidur or azure", f.to.Value)
	}
	if f.block < 0 {
		return nil, cli.Usagef("--block-size=%d: must be at least 1", f.block)
	}
	to := f.block
	if to == 0 {
		to = block
	}
	file, err := write.Create(f.out, s.Out)
	if err != nil {
		return nil, err
	}
	writer, err := write.NewWriter(file, f.to.Value, to)
	t := &target{file: file, writer: writer, reblock: formats.NewReblock(block, to), block: to, ids: f.to.Value == "mooncake" || f.to.Value == "tasks", remarks: s.Err}
	if !raw {
		t.dense = formats.NewDense(to)
	}
	return t, err
}

func (t *target) Write(r *formats.Record) error {
	t.reblock.Apply(r)
	if t.dense != nil {
		t.dense.Apply(r)
	}
	return t.writer.Write(r)
}

// printRemarks prints settings that a replay of the file needs and the file does not contain.
func (t *target) printRemarks() {
	if n := t.writer.Lost(); n > 0 {
		fmt.Fprintf(t.remarks, "replay: %d dependencies are on requests that were left out; requests that had them start at their recorded time\n", n)
	}
	if t.ids && t.block != defaultTraceBlock {
		fmt.Fprintf(t.remarks, "replay: its hash ids stand for %d tokens each: replay it with --trace-block-size %d\n", t.block, t.block)
	}
}

// defaultTraceBlock is the default number of tokens per hash id.
const defaultTraceBlock = 512

// endFile completes the file, with a note about sources, or removes it after an error.
func (t *target) endFile(err error, sources ...*reader) error {
	if err == nil {
		err = t.writer.Flush()
	}
	if err == nil && t.writer.Count() == 0 {
		err = errors.New("no requests are left: at least one is required")
	}
	if err != nil {
		t.file.Abort()
		return err
	}
	if err := t.file.Commit(); err != nil {
		return err
	}
	for _, r := range sources {
		r.printSkipped()
	}
	t.printRemarks()
	return nil
}

// inOut reads the arguments IN [OUT].
func (f *writing) inOut(args []string) (string, error) {
	switch {
	case len(args) == 0 || len(args) > 2 || args[0] == "":
		return "", cli.Usagef("must be one trace file, and at most one file to write")
	case len(args) == 2 && f.out != "":
		return "", cli.Usagef("%s: --out names another file to write", args[1])
	case len(args) == 2:
		f.out = args[1]
	}
	if f.out != "" && f.out != "-" && filepath.Clean(f.out) == filepath.Clean(args[0]) {
		return "", cli.Usagef("%s: is the input, and writing would replace it: use another file", f.out)
	}
	return args[0], nil
}
