package frontend

import (
	"iter"
	"net/http"
	"time"

	"github.com/replay-llm/replay/live/openai"
)

// writeStream writes the answer as events while it comes. Before the first chunk, an error still has a separate
// status.
func (a *reply) writeStream(pieces iter.Seq2[*openai.Piece, error]) {
	begun := false
	var event []byte
	for p, err := range pieces {
		if err = a.endOf(p, err); err != nil {
			a.sendError(err, begun)
			return
		}
		a.notePiece(p)
		if a.isGone() {
			continue // the request is about to end
		}
		if !begun {
			begun = true
			a.openStream()
		}
		if event = a.answer.AppendPiece(event[:0], p); len(event) > 0 {
			a.addEvent(event)
		}
		if !p.More || len(a.buf) > mostHeld {
			a.sendEvents()
		}
	}
	if a.isGone() {
		return
	}
	for _, event := range a.answer.Closings() {
		a.addEvent(event)
	}
	a.sendEvents()
	a.whole = a.failed == nil
}

// openStream writes the header, and the events before the first token.
func (a *reply) openStream() {
	h := a.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	a.w.WriteHeader(http.StatusOK)
	a.control = http.NewResponseController(a.w)
	for _, event := range a.answer.Openings() {
		a.addEvent(event)
	}
}

// mostHeld is how many bytes of events wait for those behind them that are ready.
const mostHeld = 16 << 10

// addEvent adds an event to the events that are sent next.
func (a *reply) addEvent(data []byte) {
	a.buf = append(append(append(a.buf, "data: "...), data...), "\n\n"...)
}

// sendEvents sends the events that were added, if there are any, in one write.
func (a *reply) sendEvents() {
	if a.failed != nil || len(a.buf) == 0 {
		return
	}
	if now := time.Now(); a.limited.Before(now) {
		a.limited = now.Add(a.server.config.Write / 8)
		_ = a.control.SetWriteDeadline(now.Add(a.server.config.Write))
	}
	_, err := a.w.Write(a.buf)
	if err == nil {
		err = a.control.Flush()
	}
	a.buf = a.buf[:0]
	if err != nil {
		a.failed = a.server.NoteWrite(a.model.Name, a.rc.ID(), err)
		a.rc.Stop()
	}
}

// sendError ends the answer with an error. It has a status while nothing is written,
// and is an event later, after which nothing comes.
func (a *reply) sendError(err error, begun bool) {
	switch {
	case a.isGone():
	case !begun:
		a.refuseRequest(err)
	default:
		e := openai.ErrorOf(err)
		a.status = e.Status
		a.addEvent(e.AppendJSON(nil))
		a.sendEvents()
		a.whole = a.failed == nil
	}
}
