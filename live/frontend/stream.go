package frontend

import (
	"encoding/json"
	"iter"
	"net/http"
	"time"

	"github.com/replay-llm/replay/live/engine"
)

// stream writes the answer as events while it comes. Before the first chunk, an
// error still has a status of its own.
func (a *reply) stream(chunks iter.Seq2[*engine.Chunk, error]) {
	e := &events{reply: a, control: http.NewResponseController(a.w)}
	for c, err := range chunks {
		text := ""
		if err == nil {
			text, err = a.take(c)
		}
		if err != nil {
			e.fail(err)
			return
		}
		if a.failed != nil || a.rc.IsStopped() {
			continue // nobody is there; the request is about to end
		}
		if !e.begun {
			e.begin()
		}
		end := ""
		if c.FinishReason != "" {
			end = reason(c.FinishReason)
		}
		if text != "" || end != "" {
			e.send(a.voice.delta(text, end))
		}
		if end != "" {
			e.end()
			return
		}
	}
	e.fail(errIncomplete)
}

// events are the answer on its way.
type events struct {
	reply   *reply
	control *http.ResponseController
	begun   bool
	buf     []byte
}

// begin writes the header, and what comes before the first token.
func (e *events) begin() {
	e.begun = true
	h := e.reply.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	e.reply.w.WriteHeader(http.StatusOK)
	if first := e.reply.voice.first(); first != nil {
		e.send(first)
	}
	if q := e.reply.question; q.echo {
		e.send(e.reply.voice.delta(q.echoed(), ""))
	}
}

// send writes one event. A client that does not take it has left.
func (e *events) send(event any) {
	b, err := json.Marshal(event)
	if err != nil {
		e.lost(err)
		return
	}
	e.raw(b)
}

func (e *events) raw(data []byte) {
	a := e.reply
	if a.failed != nil {
		return
	}
	e.buf = append(append(append(e.buf[:0], "data: "...), data...), "\n\n"...)
	_ = e.control.SetWriteDeadline(time.Now().Add(a.server.config.Write))
	if _, err := a.w.Write(e.buf); err != nil {
		e.lost(err)
		return
	}
	if err := e.control.Flush(); err != nil {
		e.lost(err)
	}
}

func (e *events) lost(err error) {
	e.reply.failed = err
	e.reply.rc.Stop()
}

// end writes what comes after the last token.
func (e *events) end() {
	a := e.reply
	if a.question.usage {
		e.send(a.voice.total(a.usage))
	}
	e.raw([]byte("[DONE]"))
	a.whole = a.failed == nil
}

// fail ends the answer with an error. It has a status while nothing is written,
// and is an event later, after which nothing comes.
func (e *events) fail(err error) {
	a := e.reply
	switch {
	case a.failed != nil || a.rc.IsStopped():
	case !e.begun:
		a.refuse(err)
	default:
		a.status = statusOf(err)
		e.send(bodyOf(err))
		a.whole = a.failed == nil
	}
}
