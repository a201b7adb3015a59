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
	e := &events{reply: a, control: http.NewResponseController(a.w)}
	for c, err := range chunks {
		text, err := a.noteChunk(c, err)
		if err != nil {
			e.sendError(err)
			return
		}
		if a.failed != nil || a.rc.IsStopped() {
			continue // nobody is there; the request is about to end
		}
		if !e.begun {
			e.writeHeader()
		}
		end := ""
		if c.FinishReason != "" {
			end = finishWord(c.FinishReason)
		}
		if text != "" || end != "" {
			e.sendEvent(a.voice.deltaEvent(text, end))
		}
		if end != "" {
			e.sendEnd()
			return
		}
	}
	e.sendError(errIncomplete)
}

// events are the answer on its way.
type events struct {
	reply   *reply
	control *http.ResponseController
	begun   bool
	buf     []byte
}

// writeHeader writes the header, and what comes before the first token.
func (e *events) writeHeader() {
	e.begun = true
	h := e.reply.w.Header()
	h.Set("Content-Type", "text/event-stream")
	h.Set("Cache-Control", "no-cache")
	e.reply.w.WriteHeader(http.StatusOK)
	if first := e.reply.voice.firstEvent(); first != nil {
		e.sendEvent(first)
	}
	if q := e.reply.question; q.echo {
		e.sendEvent(e.reply.voice.deltaEvent(q.echoText(), ""))
	}
}

// sendEvent writes one event. A client that does not take it has left.
func (e *events) sendEvent(event any) {
	b, err := json.Marshal(event)
	if err != nil {
		e.loseClient(err)
		return
	}
	e.sendData(b)
}

func (e *events) sendData(data []byte) {
	a := e.reply
	if a.failed != nil {
		return
	}
	e.buf = append(append(append(e.buf[:0], "data: "...), data...), "\n\n"...)
	_ = e.control.SetWriteDeadline(time.Now().Add(a.server.config.Write))
	if _, err := a.w.Write(e.buf); err != nil {
		e.loseClient(err)
		return
	}
	if err := e.control.Flush(); err != nil {
		e.loseClient(err)
	}
}

func (e *events) loseClient(err error) {
	e.reply.failed = err
	e.reply.rc.Stop()
}

// sendEnd writes what comes after the last token.
func (e *events) sendEnd() {
	a := e.reply
	if a.question.usage {
		e.sendEvent(a.voice.usageEvent(a.usage))
	}
	e.sendData([]byte("[DONE]"))
	a.whole = a.failed == nil
}

// sendError ends the answer with an error. It has a status while nothing is written,
// and is an event later, after which nothing comes.
func (e *events) sendError(err error) {
	a := e.reply
	switch {
	case a.failed != nil || a.rc.IsStopped():
	case !e.begun:
		a.refuseRequest(err)
	default:
		a.status = statusOf(err)
		e.sendEvent(bodyOf(err))
		a.whole = a.failed == nil
	}
}
