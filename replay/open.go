package replay

import (
	"context"
	"errors"
	"fmt"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/registry"
	"github.com/replay-llm/replay/loadgen/generate"
)

// Open reads or generates the workload. Open does not depend on the cluster, except that a synthetic workload uses
// the block size of the first pool.
func (s *Spec) Open(ctx context.Context, streams Streams) (*loadgen.Workload, error) {
	w, err := s.open(ctx, streams)
	if err == nil && len(s.Classes) > 0 {
		err = w.Classify(s.Classes)
	}
	switch {
	case err == nil:
		return w, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	}
	return nil, err
}

func (s *Spec) open(ctx context.Context, streams Streams) (*loadgen.Workload, error) {
	t := s.Trace
	if t == nil {
		r := s.Synthetic
		r.Block, r.Seed, r.Compat = s.Entry().Engine.BlockTokens, s.Seed, s.Compat
		return loadgen.NewSynthetic(r)
	}
	if t.Path == "" {
		return makeWorkload(ctx, t.Made)
	}
	if _, sized := t.format(); t.BlockTokens < 0 || t.BlockTokens == 0 && !t.Detect && sized {
		return nil, fmt.Errorf("trace block size is %d, must be at least 1", t.BlockTokens)
	}
	stream, err := registry.OpenPath(t.Path, streams.Stdin, s.formatOptions(ctx, streams))
	if err != nil {
		return nil, err
	}
	if err := s.checkFormat(stream); err != nil {
		return nil, errors.Join(err, stream.Close())
	}
	if s.Stream != nil {
		w, err := s.openStream(stream)
		if err != nil {
			return nil, errors.Join(err, stream.Close())
		}
		return w, nil
	}
	defer stream.Close()
	return stream.Workload()
}

// checkFormat rejects a trace with a format that the replay cannot use.
func (s *Spec) checkFormat(stream *formats.Stream) error {
	agentic := stream.Format == formats.Agentic
	_, sized := s.Trace.format()
	switch {
	case agentic && s.Mode == loadgen.Trace:
		return fmt.Errorf("%s: is in the %s format, which has no timestamps, use replay concurrency", stream.Name, stream.Format)
	case agentic || s.Trace.Groups == 0 && s.Trace.SharedRatio == 0:
		return nil
	case !s.Trace.Detect && sized && s.Trace.LeftOpen == (formats.LeftOpen{}):
		return nil // the reference ignores these settings
	case stream.Format == formats.Mooncake:
		return fmt.Errorf("%s: is in the %s format, which has hash ids of shared prompts, remove the prefix groups", stream.Name, stream.Format)
	}
	return fmt.Errorf("%s: is in the %s format, remove the prefix groups", stream.Name, stream.Format)
}

// makeWorkload generates the workload of c.
func makeWorkload(ctx context.Context, c generate.Config) (*loadgen.Workload, error) {
	g, err := generate.New(c)
	if err != nil {
		return nil, err
	}
	return formats.CollectRecords(recordsUntilDone{ctx, g}, "generated workload", c.Block)
}

// formatOptions returns the options for reading the trace.
func (s *Spec) formatOptions(ctx context.Context, streams Streams) formats.Options {
	warn := streams.Warn
	o := formats.Options{
		TraceBlock: s.Trace.BlockTokens, LeftOpen: s.Trace.LeftOpen, Compat: s.Compat, SharedRatio: s.Trace.SharedRatio,
		Groups: s.Trace.Groups, Seed: s.Seed, Stop: ctx.Err, Warn: warn, Strict: true,
		Tasks: true, ReadLaw: generate.ReadDraw, Threads: streams.Threads, Unkept: s.Stream != nil,
	}
	if warn != nil {
		o.Bad = func(err error) { warn("skipped " + err.Error()) }
	}
	if !s.Trace.Detect {
		o.Format, _ = s.Trace.format()
	}
	return o
}

// recordsUntilDone yields records until its context ends.
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
