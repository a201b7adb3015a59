package replay

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/generate"
)

// Open reads or makes the workload. The cluster does not matter, but that a
// synthetic workload is made of blocks of its first pool.
func (s *Spec) Open(ctx context.Context, streams Streams) (*loadgen.Workload, error) {
	w, err := s.open(ctx, streams)
	if err != nil && ctx.Err() != nil {
		return nil, ctx.Err()
	}
	return w, err
}

func (s *Spec) open(ctx context.Context, streams Streams) (*loadgen.Workload, error) {
	t := s.Trace
	if t == nil {
		r := s.Synthetic
		r.Block, r.Seed, r.Compat = s.Entry().Engine.BlockTokens, s.Seed, s.Compat
		return loadgen.NewSynthetic(r)
	}
	if t.Path == "" {
		return made(ctx, t.Made)
	}
	if t.BlockTokens < 0 || t.BlockTokens == 0 && !t.Detect && t.Format.own() {
		return nil, fmt.Errorf("trace block size is %d, want at least 1", t.BlockTokens)
	}
	if stat, err := os.Stat(t.Path); t.Path != "-" && err == nil && stat.IsDir() && (t.Detect || !t.Format.own()) {
		return formats.ReadPath(t.Path, streams.Stdin, s.formatOptions(ctx, streams.Warn))
	}
	f, err := loadgen.Open(t.Path, streams.Stdin)
	if err != nil {
		return nil, err
	}
	w, err := s.read(untilDone{ctx, f}, f, s.formatOptions(ctx, streams.Warn))
	return w, errors.Join(err, f.Close())
}

// made is the workload that c describes.
func made(ctx context.Context, c generate.Config) (*loadgen.Workload, error) {
	g, err := generate.New(c)
	if err != nil {
		return nil, err
	}
	return formats.CollectRecords(recordsUntilDone{ctx, g}, "generated workload", c.Block)
}

// read reads the trace f by way of in, in its format, with o where the reference does not know it.
func (s *Spec) read(in io.Reader, f *loadgen.Input, o formats.Options) (*loadgen.Workload, error) {
	t, name := s.Trace, f.Name
	agentic := t.Format == Agentic
	if t.Detect {
		agentic, in = loadgen.LooksAgentic(in)
	}
	switch {
	case agentic && s.Mode == loadgen.Trace:
		return nil, fmt.Errorf("%s: looks like the %s format, which has no timestamps, want replay concurrency", name, Agentic)
	case agentic:
		return loadgen.ReadAgentic(in, name, loadgen.AgenticOptions{ReadOptions: s.readOptions(f), SharedRatio: t.SharedRatio, Groups: t.Groups})
	case !t.Detect && t.Format.own() && t.LeftOpen == (formats.LeftOpen{}):
		return loadgen.ReadMooncake(in, name, s.readOptions(f))
	case t.Groups != 0 || t.SharedRatio != 0:
		return nil, groupless(in, name, o)
	}
	return formats.Read(in, name, o)
}

// readOptions are those of the formats that the reference reads.
func (s *Spec) readOptions(f *loadgen.Input) loadgen.ReadOptions {
	block := s.Trace.BlockTokens
	if block == 0 {
		block = defaultBlockTokens
	}
	return loadgen.ReadOptions{TraceBlock: block, Compat: s.Compat, Size: f.Size()}
}

// defaultBlockTokens is the size of a hash id's block, as the reference has it.
const defaultBlockTokens = 512

// formatOptions are those of all other formats.
func (s *Spec) formatOptions(ctx context.Context, warn func(string)) formats.Options {
	o := formats.Options{
		TraceBlock: s.Trace.BlockTokens, LeftOpen: s.Trace.LeftOpen, Compat: s.Compat, SharedRatio: s.Trace.SharedRatio,
		Groups: s.Trace.Groups, Seed: s.Seed, Stop: ctx.Err, Warn: warn, Strict: true,
	}
	if warn != nil {
		o.Bad = func(err error) { warn("skipped " + err.Error()) }
	}
	if !s.Trace.Detect {
		o.Format = string(s.Trace.Format)
	}
	return o
}

// groupless is the error of a trace that has no use for prefix groups.
func groupless(in io.Reader, name string, o formats.Options) error {
	stream, err := formats.NewStream(in, name, o)
	switch {
	case err != nil:
		return err
	case stream.Format == string(Mooncake):
		return fmt.Errorf("%s: looks like the %s format, in which hash ids say what prompts share, want no prefix groups", name, stream.Format)
	}
	return fmt.Errorf("%s: looks like the %s format, want no prefix groups", name, stream.Format)
}

// untilDone is a reader that fails once its context has ended.
type untilDone struct {
	ctx context.Context
	in  io.Reader
}

func (u untilDone) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.in.Read(p)
}

// recordsUntilDone gives records until its context has ended.
type recordsUntilDone struct {
	ctx  context.Context
	from formats.Reader
}

func (u recordsUntilDone) Next(r *formats.Record) error {
	if err := u.ctx.Err(); err != nil {
		return err
	}
	return u.from.Next(r)
}
