package write

import (
	"fmt"
	"strconv"

	"github.com/replay-llm/replay/loadgen/formats"
)

// chains is what is remembered to write agentic_mooncake and tasks, in which a turn
// names those that it waits for.
type chains struct {
	block    int
	named    map[string]turnBefore // by name; only of graphs
	lost     int                   // edges from requests that were not written
	order    *formats.Order
	sessions map[string]turnBefore
}

// turnBefore is a turn that was written.
type turnBefore struct {
	request string  // its name in the file that is written
	at      float64 // when the session starts, or when it was recorded, ms
}

// nameNext returns the name of the request that is written next: in tasks the one that it has.
func (w *Writer) nameNext(r *formats.Record) string {
	if r.Name != "" && w.to == formats.Tasks {
		return r.Name
	}
	return "r" + strconv.Itoa(w.count)
}

// appendAgentic writes a row of agentic_mooncake, after the header before the first, or of tasks.
// Requests are numbered, and so are the sessions that have no name.
func (w *Writer) appendAgentic(r *formats.Record) error {
	c := w.chains
	if !w.started && w.to != formats.Tasks {
		w.line = fmt.Appendf(w.line, `{"schema":"dynamo.agentic_mooncake","version":2,"block_size":%d,"hash_id_scope":"global","source":{"format":"replay"}}`+"\n", c.block)
	}
	if r.Name != "" {
		return w.appendNode(r)
	}
	place, err := c.order.Place(r)
	if err != nil {
		return err
	}
	before, session := turnBefore{at: r.At}, r.Session
	var after []formats.Edge
	if place.First {
		if err := w.needArrival(r); err != nil {
			return err
		}
		if session == nil {
			session = fmt.Appendf(nil, "s%d", place.Session)
		}
	} else {
		before = c.sessions[string(session)]
		after = []formats.Edge{{Name: before.request, Relation: "sequence", Delay: place.Delay}}
	}
	w.appendTurn(r, session, session, before.at, after)
	if r.Session != nil {
		c.sessions[string(session)] = turnBefore{w.nameNext(r), before.at}
	}
	return nil
}

// appendTurn writes the row of r, which waits for others, named as they were written.
func (w *Writer) appendTurn(r *formats.Record, play, session []byte, at float64, after []formats.Edge) {
	if w.to == formats.Tasks {
		w.appendTask(r, play, at, after)
		return
	}
	b := fmt.Appendf(w.line, `{"request_id":"r%d","play_id":`, w.count)
	b = append(appendString(b, play), `,"session_id":`...)
	b = append(appendString(b, session), `,"model":"any",`...)
	b = appendNumber(append(appendPrompt(b, r), `,"not_before_ms":`...), at)
	separator := `,"dependencies":[`
	for _, e := range after {
		b = append(b, separator...)
		separator = ","
		trigger := "completion"
		if e.Dispatch {
			trigger = "dispatch"
		}
		b = fmt.Appendf(b, `{"request_id":"%s","trigger":"%s","delay_ms":`, e.Name, trigger)
		b = fmt.Appendf(appendNumber(b, e.Delay), `,"relation":"%s"}`, e.Relation)
	}
	if len(after) > 0 {
		b = append(b, ']')
	}
	w.line = append(b, '}')
}

// appendTask writes the row of r, which waits for others, named as they were written.
func (w *Writer) appendTask(r *formats.Record, task []byte, at float64, after []formats.Edge) {
	b := append(appendString(append(w.line, `{"id":`...), []byte(w.nameNext(r))), ',')
	if len(task) > 0 {
		b = append(appendString(append(b, `"session_id":`...), task), ',')
	}
	if len(after) == 0 {
		b = append(appendNumber(append(b, `"timestamp":`...), at), ',')
	}
	b = append(appendPrompt(appendKind(b, r), r), `,"after":[`...)
	for i, e := range after {
		if i > 0 {
			b = append(b, ',')
		}
		if e.Delay == 0 && !e.Dispatch {
			b = appendString(b, []byte(e.Name))
			continue
		}
		b = appendString(append(b, `{"id":`...), []byte(e.Name))
		b = appendNumber(append(b, `,"delay_ms":`...), e.Delay)
		if e.Dispatch {
			b = append(b, `,"start":true`...)
		}
		b = append(b, '}')
	}
	w.line = append(b, `]}`...)
}

// appendNode writes a request of a graph. Those that it waits for were written before.
func (w *Writer) appendNode(r *formats.Record) error {
	c := w.chains
	var after []formats.Edge
	at := r.At
	for _, e := range r.After {
		before, ok := c.named[e.Name]
		if !ok {
			c.lost++
			continue
		}
		if !r.HasAt {
			at = max(at, before.at)
		}
		e.Name = before.request
		after = append(after, e)
	}
	if len(after) == 0 {
		if err := w.needArrival(r); err != nil {
			return err
		}
	}
	w.appendTurn(r, r.Group, []byte(r.Agent), at, after)
	c.named[r.Name] = turnBefore{w.nameNext(r), at}
	return nil
}

// Lost is the number of dependencies that could not be written, since the
// requests that they name were left out.
func (w *Writer) Lost() int {
	if w.chains == nil {
		return 0
	}
	return w.chains.lost
}
