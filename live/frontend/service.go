package frontend

import (
	"context"
	"iter"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
)

// Service answers the requests to one model: an engine.Target.
type Service interface {
	// Generate asks for an answer; headers go with the request, by lower-case
	// name. An error means that nothing was begun. The sequence ends with a
	// terminal chunk or an error. The end of ctx kills the request; stopping rc
	// makes it end early.
	Generate(ctx context.Context, rc cancel.Context, rq *engine.Request, headers map[string]string) (iter.Seq2[*engine.Chunk, error], error)
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
