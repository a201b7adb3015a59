package explore

import (
	"context"
	"errors"

	"github.com/replay-llm/replay/internal/excerpt"
)

// MostText is the size of the largest trace that is kept in memory, in bytes.
const MostText = 256 << 20

// Begin is what a page begins with.
type Begin struct {
	Traces []string `json:"traces"`
	Knobs  []Knob   `json:"knobs"`
	Most   int64    `json:"most"` // bytes of a trace
	// Layout is that of the page, where it may be made into another (html.ReplaceData).
	Layout int       `json:"layout,omitempty"`
	Files  []File    `json:"files,omitempty"` // traces that are in the page
	Run    *Recorded `json:"run,omitempty"`   // nil: the page is of no run
	Plan   any       `json:"plan,omitempty"`  // what a plan chooses; nil: nothing that the page asks makes plans
	// Start are the settings of a page that names none, and Restart the command that serves it again.
	Start   Settings `json:"start,omitempty"`
	Restart string   `json:"restart,omitempty"`
}

// StartSettings returns the settings with which a page begins.
func StartSettings() Settings { return Settings{"gpu": "h100", "model": "llama-3.1-8b"} }

// File is a file that is in a page.
type File struct {
	Name   string `json:"name"`
	Packed []byte `json:"base64"` // by gzip
}

// Question is what a page asks of a session.
type Question struct {
	View     string   `json:"view"`
	Settings Settings `json:"settings"`
	Other    Settings `json:"other"`
	Request  string   `json:"request"`
	Worker   Worker   `json:"worker"`
	// The settings of the other runs of a page, and their names on it.
	Others []Settings `json:"others"`
	Names  []string   `json:"names"`
}

// Ask answers a question of the kind name, with a value to write as JSON. For an unknown kind it returns
// errors.ErrUnsupported.
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
