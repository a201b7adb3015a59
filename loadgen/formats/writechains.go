package formats

import (
	"fmt"
	"strconv"
)

// chains is what is remembered to write agentic_mooncake, in which a turn names
// the one that it waits for.
type chains struct {
	block    int
	order    *Order
	sessions map[string]turnBefore
}

// turnBefore is the last turn of a session that was written.
type turnBefore struct {
	request int     // its number
	at      float64 // when the session starts, ms
}

// agentic writes a row of agentic_mooncake, after the header before the first.
// Requests are numbered, and so are the sessions that have no name.
func (w *Writer) agentic(r *Record) error {
	c := w.chains
	if !w.started {
		w.line = fmt.Appendf(w.line, `{"schema":"dynamo.agentic_mooncake","version":2,"block_size":%d,"hash_id_scope":"global","source":{"format":"replay"}}`+"\n", c.block)
	}
	place, err := c.order.Place(r)
	if err != nil {
		return err
	}
	before, session := turnBefore{}, string(r.Session)
	if place.First {
		if err := w.timed(r); err != nil {
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
