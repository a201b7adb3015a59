package engines

import (
	"fmt"

	"github.com/replay-llm/replay/internal/accuracy"
	"github.com/replay-llm/replay/scheduler/silicon"
)

// FrontEndTime returns the time between clients and the router of the entry pool.
func (t *Topology) FrontEndTime() silicon.FrontEnd {
	if t.FrontEnd != nil {
		return *t.FrontEnd
	}
	if len(t.Pools) == 0 || t.Compat {
		return silicon.FrontEnd{}
	}
	engine, ok := t.Entry().Kinds()[0].Engine.PassTimes.Engine()
	if !ok {
		return silicon.FrontEnd{}
	}
	return silicon.FrontEndOf(engine)
}

// assumeFrontEnd returns the assumption about the front end, nil if there is none.
func (t *Topology) assumeFrontEnd() []Assumption {
	f := t.FrontEndTime()
	if f.IsZero() {
		return nil
	}
	text := fmt.Sprintf("%.3g ms", f.Base)
	if f.Token > 0 {
		text += fmt.Sprintf(" and %.3g ms per 1000 prompt tokens", 1000*f.Token)
	}
	text += " between client and router, "
	engine, ok := t.Entry().Kinds()[0].Engine.PassTimes.Engine()
	if t.FrontEnd != nil || !ok {
		return []Assumption{{"front_end", text + "as given"}}
	}
	return []Assumption{{"front_end", text + "fitted to TTFT of published " + accuracy.NameEngine(engine.String()) + " servers (--front-end-ms)"}}
}
