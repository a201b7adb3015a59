package frontend

import (
	"context"
	"iter"
	"time"

	"github.com/replay-llm/replay/cancel"
	"github.com/replay-llm/replay/engine"
)

// Call is a request on its way to a model.
type Call struct {
	Request *engine.Request
	Headers map[string]string // that go with it, by lower-case name
}

// Service answers the requests to one model.
type Service interface {
	// Generate asks for an answer. An error means that nothing was begun. The
	// sequence ends with a terminal chunk or an error. The end of ctx kills the
	// request; stopping rc makes it end early.
	Generate(ctx context.Context, rc cancel.Context, c Call) (iter.Seq2[*engine.Chunk, error], error)
}

// Model is a model that can be asked.
type Model struct {
	Name          string
	ContextLength int       // tokens of prompt and answer together; 0: unknown
	Since         time.Time // when it was first seen
	Instances     int       // that serve it now
	Service       Service
}

// Models are those that can be asked now.
type Models interface {
	// List is all of them, by name.
	List() []Model
	// Find is the one of that name.
	Find(name string) (Model, bool)
}
