package timeline

import (
	"fmt"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// pidEvents is the process of the events of the cluster.
const pidEvents = 3

// AddResult adds the faults and the actions of autoscalers at the end of the replay.
func (w *Writer) AddResult(r *harness.Result) {
	if len(r.Incidents)+len(r.Scaling) == 0 {
		return
	}
	w.out.writeProcess(pidEvents, 2, "cluster")
	w.out.writeThread(pidEvents, tidPasses, "faults and scaling")
	for i, x := range r.Incidents {
		w.writeMark(x.At, fmt.Sprintf("fault %d: %s", i+1, x.What), "")
	}
	for _, s := range r.Scaling {
		name := "workers"
		if s.Stage != scheduler.Aggregated {
			name = s.Stage.String() + " workers"
		}
		for _, a := range s.Acts {
			w.writeMark(a.At, fmt.Sprintf("%d to %d %s", a.From, a.To, name), a.Why)
		}
		for _, z := range s.Sizes {
			if w.isShown(z.At, z.At) {
				b := appendInstant(w.out.buf, ",\n"+`{"ph":"C","pid":3,"name":"`+name+`","ts":`, toNanos(z.At))
				b = appendNumber(b, `,"args":{"ready":`, z.Ready)
				b = appendNumber(b, `,"starting":`, z.Starting)
				b = appendNumber(b, `,"leaving":`, z.Leaving)
				w.out.endEvent(append(b, "}}"...))
			}
		}
	}
}

// writeMark writes a mark on the track of the cluster, with its reason if known.
func (w *Writer) writeMark(at sim.Time, name, why string) {
	if !w.isShown(at, at) {
		return
	}
	text, _ := json.Marshal(name) // a string can always be marshalled
	b := appendInstant(w.out.buf, ",\n"+`{"ph":"i","s":"t","pid":3,"tid":1,"ts":`, toNanos(at))
	b = append(append(b, `,"name":`...), text...)
	if why != "" {
		text, _ := json.Marshal(why)
		b = append(append(append(b, `,"args":{"why":`...), text...), '}')
	}
	w.out.endEvent(append(b, '}'))
}
