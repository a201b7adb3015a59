package frontend

import (
	"github.com/replay-llm/replay/live/route"
)

// Models are the models that can be asked now. A route.Catalog is one.
type Models interface {
	// Models lists the models that are served, by name. The channel is closed when
	// that changes.
	Models() ([]route.Served, <-chan struct{})
	// Find returns the model of that name, and reports whether it is, or was,
	// served.
	Find(name string) (route.Served, bool)
}
