package formats

import (
	"fmt"
	"strconv"
)

// chains is what is remembered to write agentic_mooncake, in which a turn names
// the one that it waits for.
type chains struct {
	block    int
	named    map[string]turnBefore // by name; only of graphs
	lost     int                   // edges from requests that were not written
	order    *Order
	sessions map[string]turnBefore
}

// turnBefore is the last turn of a session that was written.
type turnBefore struct {
	request int     // its number
	at      float64 // when the session starts, or when it was recorded, ms
}

// name is that of the turn in the file that is written.
func (t turnBefore) name() string { return "r" + strconv.Itoa(t.request) }

// appendAgentic writes a row of agentic_mooncake, after the header before the first.
// Requests are numbered, and so are the sessions that have no name.
func (w *Writer) appendAgentic(r *Record) error {
	c := w.chains
	if !w.started {
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
	var after []Edge
	if place.First {
		if err := w.needArrival(r); err != nil {
			return err
		}
		if session == nil {
			session = fmt.Appendf(nil, "s%d", place.Session)
		}
	} else {
		before = c.sessions[string(session)]
		after = []Edge{{Name: before.name(), Relation: "sequence", Delay: place.Delay}}
	}
	w.appendTurn(r, session, session, before.at, after)
	if r.Session != nil {
		c.sessions[string(session)] = turnBefore{w.count, before.at}
	}
	return nil
}

// appendTurn writes the row of r, which waits for others, named as they were written.
func (w *Writer) appendTurn(r *Record, play, session []byte, at float64, after []Edge) {
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

// appendNode writes a request of a graph. Those that it waits for were written before.
func (w *Writer) appendNode(r *Record) error {
	c := w.chains
	var after []Edge
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
		e.Name = before.name()
		after = append(after, e)
	}
	if len(after) == 0 {
		if err := w.needArrival(r); err != nil {
			return err
		}
	}
	w.appendTurn(r, r.Group, []byte(r.Agent), at, after)
	c.named[r.Name] = turnBefore{w.count, at}
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
