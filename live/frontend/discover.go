package frontend

import (
	"github.com/replay-llm/replay/live/route"
)

// Discover is the models of a catalog.
func Discover(c *routing.Catalog) Models { return discovered{c} }

type discovered struct{ catalog *routing.Catalog }

func (d discovered) List() []Model {
	served, _ := d.catalog.Models()
	all := make([]Model, len(served))
	for i := range served {
		all[i] = model(served[i])
	}
	return all
}

func (d discovered) Find(name string) (Model, bool) {
	s, ok := d.catalog.Find(name)
	return model(s), ok
}

func model(s routing.Served) Model {
	return Model{Name: s.Name, ContextLength: s.ContextLength, Since: s.Since, Instances: s.Instances, Service: s.Target}
}
