package frontend

import (
	"iter"
	"net/http"
	"time"

	"github.com/replay-llm/replay/internal/listen"
	"github.com/replay-llm/replay/live/openai"
)

// writeStream writes the answer as events while it is generated. An error before the first chunk is sent as an HTTP
// status.
func (a *reply) writeStream(pieces iter.Seq2[*openai.Piece, error]) {
	begun := false
	for p, err := range pieces {
		if err = a.endOf(p, err); err != nil {
			a.sendError(err, begun)
			return
		}
		a.notePiece(p)
		if a.failed != nil || a.rc.IsStopped() && a.isGone() {
			continue // the answer ends soon
		}
		if !begun {
			begun = true
			a.openStream()
		}
		if size := a.addEvent(func(b []byte) []byte { return a.answer.AppendPiece(b, p) }); !p.More || size > mostHeld {
			a.sendEvents()
		}
	}
	if a.isGone() {
		return
	}
	for _, event := range a.answer.Closings() {
		a.addBytes(event)
	}
	a.sendEvents()
	a.whole = a.failed == nil
}

// openStream writes the header, and adds the events before the first token.
func (a *reply) openStream() {
	h := a.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	a.w.WriteHeader(http.StatusOK)
	a.control = http.NewResponseController(a.w)
	for _, event := range a.answer.Openings() {
		a.addBytes(event)
	}
}

// mostHeld is the number of bytes of added events above which they are sent although more events are ready.
const mostHeld = 16 << 10

// addEvent adds the event that data appends, if it is not empty, and returns the size of all added events.
func (a *reply) addEvent(data func(dst []byte) []byte) int {
	if a.buf == nil {
		a.buf = a.server.rooms.Get().(*[]byte)
	}
	const head = "data: "
	b := append(*a.buf, head...)
	if full := data(b); len(full) > len(b) {
		*a.buf = append(full, "\n\n"...)
	}
	return len(*a.buf)
}

func (a *reply) addBytes(event []byte) {
	a.addEvent(func(dst []byte) []byte { return append(dst, event...) })
}

// sendEvents sends the added events, if any, in one write.
func (a *reply) sendEvents() {
	if a.buf == nil {
		return
	}
	b := *a.buf
	if a.failed == nil && len(b) > listen.ChunkRoom {
		if err := a.writeEvents(b); err != nil {
			a.failed = a.server.NoteWrite(a.model.Name, a.rc.ID(), err)
			a.rc.Stop()
		}
	}
	*a.buf = b[:listen.ChunkRoom]
	a.server.rooms.Put(a.buf)
	a.buf = nil
}

// writeEvents writes the events behind listen.ChunkRoom. The first events are sent with the header.
func (a *reply) writeEvents(b []byte) error {
	first := a.limited.IsZero()
	if now := time.Now(); a.limited.Before(now) {
		a.limited = now.Add(a.server.config.Write / 8)
		_ = a.control.SetWriteDeadline(now.Add(a.server.config.Write))
	}
	if a.conn != nil {
		return listen.WriteChunk(a.conn, b)
	}
	if _, err := a.w.Write(b[listen.ChunkRoom:]); err != nil {
		return err
	}
	if err := a.control.Flush(); err != nil {
		return err
	}
	if first {
		a.conn = listen.ChunkConn(a.w, a.r)
	}
	return nil
}

// sendError ends the answer with an error: as a status if nothing was sent, otherwise as the last event.
func (a *reply) sendError(err error, begun bool) {
	switch {
	case a.isGone():
	case !begun:
		a.refuseRequest(err)
	default:
		e := openai.ErrorOf(err)
		a.status = e.Status
		a.addEvent(e.AppendJSON)
		a.sendEvents()
		a.whole = a.failed == nil
	}
}
