// Package explore runs settings against traces that stay parsed, for a page on
// which a person turns them: each answer holds all that is drawn of a run, with the
// command line and the file of flags that give the same run.
//
// It needs neither network nor other programs. Read explore.go (what is given and kept),
// knobs.go and offers.go (what may be turned), run.go (one run), closeup.go (one request, one
// worker, two runs), said.go (settings as text), ask.go (what pages ask), then recorded.go (a run that a page is made of).
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

// Settings are flags of replay trace by name, without dashes, and the trace under
// the name trace. With max-in-flight they are those of replay concurrency.
type Settings map[string]string

// Session holds traces and what was read of them. Its methods may be called by
// several goroutines at once.
type Session struct {
	// Progress is called now and then during a run, like that of replay.Streams; nil: never. It is set before the first
	// question.
	Progress func(done, all int)

	mutex   sync.Mutex
	traces  []*trace
	carried []string // settings that are accepted besides the knobs
	offered []offer
	open    runs.Workloads
	views   map[string]context.CancelFunc // the run that each view waits for
	knobs   func() []Knob                 // Knobs, made once
	reader  *options.CellReader
}

// trace is one that was given.
type trace struct {
	name string
	path string // "" of one in memory
	text []byte
	hash func() ([]rundir.Input, error)
}

const (
	// MostTraces is how many traces a session takes.
	MostTraces = 64
	mostViews  = 64
)

// New returns a session without traces.
func New() *Session {
	return &Session{views: map[string]context.CancelFunc{}, knobs: sync.OnceValue(Knobs), reader: options.NewCellReader()}
}

// Carry accepts settings that are no knobs: settings of a shown run that the page cannot change. It is called before
// the first question.
func (s *Session) Carry(names ...string) { s.carried = append(s.carried, names...) }

// AddFile adds the trace at path, which is its name from now on.
func (s *Session) AddFile(path string) error { return s.add(newTrace(path, path)) }

// newTrace returns the trace of a name that is in a file.
func newTrace(name, path string) *trace {
	return &trace{name: name, path: path, hash: sync.OnceValues(func() ([]rundir.Input, error) { return runs.HashTrace(&replay.Trace{Path: path}) })}
}

// AddText adds a trace that is in memory, once it can be read.
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

// AddReadable adds the trace at path, which is its name from now on, once it can be read.
func (s *Session) AddReadable(ctx context.Context, path string) error {
	return s.addReadable(ctx, newTrace(path, path))
}

func (s *Session) addReadable(ctx context.Context, t *trace) error {
	spec := replay.Spec{Trace: &replay.Trace{Path: t.file(), Detect: true}}
	if _, err := spec.Open(ctx, t.streams()); err != nil && !errors.As(err, new(*formats.MisfitError)) && !errors.As(err, new(*formats.UnknownError)) {
		return err // knobs help with the two
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

// Traces returns the names of all traces, in the order in which they came.
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

// file is the path of the trace for readers.
func (t *trace) file() string {
	if t.path == "" {
		return "-"
	}
	return t.path
}

func (t *trace) streams() replay.Streams { return replay.Streams{Stdin: bytes.NewReader(t.text)} }

// workload returns the workload of spec, which is read at the first call and kept.
func (s *Session) workload(t *trace, spec *replay.Spec) (*loadgen.Workload, error) {
	return s.open.Open(t.name, spec, t.streams())
}

// Newest returns a context for a run that a view waits for. It ends when the view
// asks for another, with Cancel, or once done is called.
func (s *Session) Newest(ctx context.Context, view string) (own context.Context, done func()) {
	own, cancel := context.WithCancel(ctx)
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if before := s.views[view]; before != nil {
		before()
	}
	if len(s.views) >= mostViews {
		clear(s.views) // those runs end alone
	}
	s.views[view] = cancel
	return own, cancel
}

// Cancel ends the run that a view waits for.
func (s *Session) Cancel(view string) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if cancel := s.views[view]; cancel != nil {
		cancel()
		delete(s.views, view)
	}
}
