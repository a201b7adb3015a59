package explore

import (
	"context"
	"errors"

	"github.com/replay-llm/replay/internal/excerpt"
)

// MostText is the maximum size in bytes of a trace that is kept in memory.
const MostText = 256 << 20

// Begin is the initial data of a page.
type Begin struct {
	Traces []string `json:"traces"`
	Knobs  []Knob   `json:"knobs"`
	Most   int64    `json:"most"` // maximum size of a trace, in bytes
	// Layout is the layout version of a page that can be converted to another page (html.ReplaceData).
	Layout int       `json:"layout,omitempty"`
	Files  []File    `json:"files,omitempty"` // traces that the page contains
	Run    *Recorded `json:"run,omitempty"`   // the recorded run; nil: the page has no recorded run
	Plan   any       `json:"plan,omitempty"`  // options of a plan; nil: the page cannot make plans
	// Start are the default settings of a page. Restart is the command that serves the page again.
	Start   Settings `json:"start,omitempty"`
	Restart string   `json:"restart,omitempty"`
}

// StartSettings returns the default settings of a page.
func StartSettings() Settings { return Settings{"gpu": "h100", "model": "llama-3.1-8b"} }

// File is a file that a page contains.
type File struct {
	Name   string `json:"name"`
	Packed []byte `json:"base64"` // contents, compressed with gzip
}

// Question is a question of a page to a session.
type Question struct {
	View     string   `json:"view"`
	Settings Settings `json:"settings"`
	Other    Settings `json:"other"`
	Request  string   `json:"request"`
	Worker   Worker   `json:"worker"`
	// Settings and names of the other runs of a page.
	Others []Settings `json:"others"`
	Names  []string   `json:"names"`
}

// Ask answers a question. name is the kind of the question. The answer can be encoded as JSON. For an unknown kind,
// Ask returns errors.ErrUnsupported.
func (s *Session) Ask(ctx context.Context, name string, q *Question) (any, error) {
	switch name {
	case "traces":
		return s.Traces(), nil
	case "cancel":
		s.Cancel(q.View)
		return struct{}{}, nil
	case "run":
		ctx, done := s.Newest(ctx, q.View)
		defer done()
		return s.Run(ctx, q.Settings)
	case "request":
		text, err := s.Request(ctx, q.Settings, q.Request)
		return map[string]string{"text": text}, err
	case "worker":
		return s.Passes(ctx, q.Settings, q.Worker)
	case "moved":
		return s.Compare(ctx, q.Other, q.Settings)
	case "page":
		text, err := s.WritePage(ctx, q.Others, q.Names)
		return map[string]string{"text": text}, err
	}
	return nil, excerpt.Errorf("%q: no question: %w", name, errors.ErrUnsupported)
}
