package frontend

import (
	"github.com/goccy/go-json"
	"iter"
	"net/http"
	"time"

	"github.com/replay-llm/replay/live/engine"
)

// writeStream writes the answer as events while it comes. Before the first chunk, an
// error still has a status of its own.
func (a *reply) writeStream(chunks iter.Seq2[*engine.Chunk, error]) {
	begun := false
	for c, err := range chunks {
		text, err := a.noteChunk(c, err)
		if err != nil {
			a.sendError(err, begun)
			return
		}
		if a.isGone() {
			continue // the request is about to end
		}
		if !begun {
			begun = true
			a.openStream()
		}
		end := finishWord(c.FinishReason)
		if text != "" || end != "" {
			a.sendEvent(a.newObject(a.flavour.piece, nil, a.flavour.added(text, end)))
		}
		if end != "" {
			if a.question.usage {
				a.sendEvent(a.newObject(a.flavour.piece, a.usage))
			}
			a.sendData([]byte("[DONE]"))
			a.whole = a.failed == nil
			return
		}
	}
	a.sendError(errIncomplete, begun)
}

// openStream writes the header, and what comes before the first token.
func (a *reply) openStream() {
	h := a.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	a.w.WriteHeader(http.StatusOK)
	if first := a.flavour.opening; first != nil {
		a.sendEvent(a.newObject(a.flavour.piece, nil, first))
	}
	if q := a.question; q.echo {
		a.sendEvent(a.newObject(a.flavour.piece, nil, a.flavour.added(q.echoText(), "")))
	}
}

// sendEvent writes one event. A client that does not take it has left.
func (a *reply) sendEvent(event any) {
	b, err := json.Marshal(event)
	if err != nil {
		a.loseClient(err)
		return
	}
	a.sendData(b)
}

func (a *reply) sendData(data []byte) {
	if a.failed != nil {
		return
	}
	a.buf = append(append(append(a.buf[:0], "data: "...), data...), "\n\n"...)
	control := http.NewResponseController(a.w)
	_ = control.SetWriteDeadline(time.Now().Add(a.server.config.Write))
	_, err := a.w.Write(a.buf)
	if err == nil {
		err = control.Flush()
	}
	if err != nil {
		a.loseClient(err)
	}
}

func (a *reply) loseClient(err error) {
	a.failed = err
	a.rc.Stop()
}

// sendError ends the answer with an error. It has a status while nothing is written,
// and is an event later, after which nothing comes.
func (a *reply) sendError(err error, begun bool) {
	switch {
	case a.isGone():
	case !begun:
		a.refuseRequest(err)
	default:
		a.status = statusOf(err)
		a.sendEvent(bodyOf(err))
		a.whole = a.failed == nil
	}
}
