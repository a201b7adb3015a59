// Package explore runs replays for an interactive page. A session keeps traces in memory after parsing. An answer has
// all data that the page draws, and the command line and config file for the same run.
//
// The package requires no network and no other programs. Read explore.go (sessions), knobs.go and offers.go (settings
// that can change), run.go (one run), closeup.go (details of requests, workers and pairs of runs), said.go (settings
// as text), ask.go (questions of pages), then recorded.go (recorded runs).
package explore

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/cmd/runs"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/report/rundir"
)

// Settings are values of flags by name, without dashes, and the trace with the name trace. The flags are those of
// replay concurrency if max-in-flight is set, and otherwise those of replay trace.
type Settings map[string]string

// Session has traces and their parsed workloads. The methods of a Session are safe for concurrent use.
type Session struct {
	// Progress is called repeatedly during a run, like the Progress of replay.Streams. Progress may be nil. Progress
	// must be set before the first question.
	Progress func(done, all int)

	mutex   sync.Mutex
	traces  []*trace
	carried []string // accepted settings that are not knobs
	offered []offer
	open    runs.Workloads
	views   map[string]context.CancelFunc // cancels the current run of each view
	knobs   func() []Knob                 // returns Knobs(), computed once
	reader  *options.CellReader
}

// trace is a trace of a session.
type trace struct {
	name string
	path string // "": the trace is in memory
	text []byte
	hash func() ([]rundir.Input, error)
}

const (
	// MostTraces is the maximum number of traces of a session.
	MostTraces = 64
	mostViews  = 64
)

// New returns a session without traces.
func New() *Session {
	return &Session{views: map[string]context.CancelFunc{}, knobs: sync.OnceValue(Knobs), reader: options.NewCellReader()}
}

// Carry accepts settings that are not knobs, because a recorded run has them and the page cannot change them. Carry
// must be called before the first question.
func (s *Session) Carry(names ...string) { s.carried = append(s.carried, names...) }

// AddFile adds the trace at path. The path is its name.
func (s *Session) AddFile(path string) error { return s.add(newTrace(path, path)) }

// newTrace returns the trace in the file at path.
func newTrace(name, path string) *trace {
	return &trace{name: name, path: path, hash: sync.OnceValues(func() ([]rundir.Input, error) { return runs.HashTrace(&replay.Trace{Path: path}) })}
}

// AddText adds a trace in memory. AddText returns an error if the trace cannot be read.
func (s *Session) AddText(ctx context.Context, name string, text []byte) error {
	t := &trace{name: name, text: text, hash: sync.OnceValues(func() ([]rundir.Input, error) {
		in, err := rundir.HashInput("trace", "-", bytes.NewReader(text))
		return []rundir.Input{in}, err
	})}
	if strings.TrimSpace(name) == "" || strings.ContainsFunc(name, func(r rune) bool { return r < ' ' }) {
		return cli.Usagef("%q: must be the name of a trace", name)
	}
	return s.addReadable(ctx, t)
}

// AddReadable adds the trace at path. AddReadable returns an error if the trace cannot be read.
func (s *Session) AddReadable(ctx context.Context, path string) error {
	return s.addReadable(ctx, newTrace(path, path))
}

func (s *Session) addReadable(ctx context.Context, t *trace) error {
	spec := replay.Spec{Trace: &replay.Trace{Path: t.file(), Detect: true}}
	if _, err := spec.Open(ctx, t.streams()); err != nil && !errors.As(err, new(*formats.MisfitError)) && !errors.As(err, new(*formats.UnknownError)) {
		return err // knobs can correct the other two errors
	}
	return s.add(t)
}

func (s *Session) add(t *trace) error {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if len(s.traces) == MostTraces {
		return cli.Usagef("%s: %d traces are there, which is all that fit", t.name, MostTraces)
	}
	if slices.ContainsFunc(s.traces, func(o *trace) bool { return o.name == t.name }) {
		return cli.Usagef("%s: is there already", t.name)
	}
	s.traces = append(s.traces, t)
	return nil
}

// Traces returns the names of all traces in the order in which they were added.
func (s *Session) Traces() []string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	names := []string{}
	for _, t := range s.traces {
		names = append(names, t.name)
	}
	return names
}

func (s *Session) find(name string) (*trace, error) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for _, t := range s.traces {
		if t.name == name {
			return t, nil
		}
	}
	var names []string
	for _, t := range s.traces {
		names = append(names, t.name)
	}
	return nil, cli.Usagef("trace=%s: must be one of the %d traces that are here%s", name, len(names), nearest.Ask(name, names))
}

// file returns the path of the trace for readers.
func (t *trace) file() string {
	if t.path == "" {
		return "-"
	}
	return t.path
}

func (t *trace) streams() replay.Streams { return replay.Streams{Stdin: bytes.NewReader(t.text)} }

// workload returns the workload of spec. workload reads the trace once and caches the workload.
func (s *Session) workload(t *trace, spec *replay.Spec) (*loadgen.Workload, error) {
	return s.open.Open(t.name, spec, t.streams())
}

// Newest returns a context for the run of a view. The context ends when the view starts another run, at Cancel, or
// when done is called.
func (s *Session) Newest(ctx context.Context, view string) (own context.Context, done func()) {
	own, cancel := context.WithCancel(ctx)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if before := s.views[view]; before != nil {
		before()
	}
	if len(s.views) >= mostViews {
		clear(s.views) // these runs continue to their end
	}
	s.views[view] = cancel
	return own, cancel
}

// Cancel ends the current run of a view.
func (s *Session) Cancel(view string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if cancel := s.views[view]; cancel != nil {
		cancel()
		delete(s.views, view)
	}
}
