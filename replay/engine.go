package replay

import (
	"errors"

	"github.com/replay-llm/replay/replay/autoscale"
)

// checkEngine rejects settings that are not supported with a custom engine.
func (s *Spec) checkEngine(streams *Streams) error {
	if streams.Engine == nil {
		return nil
	}
	foreknown := func(a *Autoscale) bool { return a != nil && a.Kind == autoscale.Foreknown && streams.Scaler == nil }
	for _, c := range []struct {
		bad  bool
		what string
	}{
		{s.Stream != nil, "a trace that is not kept"},
		{s.Warm != nil, "caches to begin with"},
		{streams.SaveCaches != nil, "caches that are kept"},
		{streams.KVEvents, "events of KV caches"},
		{foreknown(s.Autoscale), "a perfect autoscaler"},
	} {
		if c.bad {
			return errors.New("an engine of the caller's does not go with " + c.what)
		}
	}
	return s.CheckCustom()
}
