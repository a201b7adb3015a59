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
	before, session := turnBefore{}, string(r.Session)
	if place.First {
		if err := w.needArrival(r); err != nil {
			return err
		}
		before.at = r.At
		if r.Session == nil {
			session = "s" + strconv.Itoa(place.Session)
		}
	} else {
		before = c.sessions[session]
	}
	name := appendString(nil, []byte(session))
	b := fmt.Appendf(w.line, `{"request_id":"r%d","play_id":%s,"session_id":%s,"model":"any",`, w.count, name, name)
	b = appendPrompt(b, r)
	b = appendNumber(append(b, `,"not_before_ms":`...), before.at)
	if !place.First {
		b = fmt.Appendf(b, `,"dependencies":[{"request_id":"r%d","trigger":"completion","delay_ms":`, before.request)
		b = append(appendNumber(b, place.Delay), `,"relation":"sequence"}]`...)
	}
	w.line = append(b, '}')
	if r.Session != nil {
		c.sessions[session] = turnBefore{w.count, before.at}
	}
	return nil
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
		e.Name = "r" + strconv.Itoa(before.request)
		after = append(after, e)
	}
	if len(after) == 0 {
		if err := w.needArrival(r); err != nil {
			return err
		}
	}
	b := fmt.Appendf(w.line, `{"request_id":"r%d","play_id":`, w.count)
	b = append(appendString(b, r.Group), `,"session_id":`...)
	b = append(appendString(b, []byte(r.Agent)), `,"model":"any",`...)
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
