package frontend

import (
	"github.com/replay-llm/replay/live/route"
)

// Models are the models that can be asked now. A routing.Catalog is one.
type Models interface {
	// Models lists the models that are served, by name. The channel is closed when
	// that changes.
	Models() ([]routing.Served, <-chan struct{})
	// Find returns the model of that name, and reports whether it is, or was,
	// served.
	Find(name string) (routing.Served, bool)
}
