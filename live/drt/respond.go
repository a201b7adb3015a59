package drt

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/wire"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/link"
)

// finWait is how long a worker waits after its last frame for the caller to close the connection.
const finWait = 10 * time.Second

// answerRequest answers the request: it calls home, calls the handler and sends its items.
func (r *respondent) answerRequest(received time.Time) {
	m := r.serving.metrics
	m.Started()
	defer func() { m.Finished(time.Since(received)) }()
	ctx, release := context.WithCancel(cancel.WithGo(r.rc))
	defer release()

	conn, err := r.dialCaller(ctx)
	if err != nil {
		m.Failed("response_stream")
		r.serving.endpoint.rt.log.Warn("no response stream", "request", r.rc.ID(), "reason", err)
		return
	}
	defer conn.Close()
	reading := make(chan struct{})
	go func() {
		defer close(reading)
		r.readSignals(wire.NewReader(conn, r.serving.endpoint.rt.config.MaxMessage))
	}()
	w := &frameWriter{conn: conn, limit: r.serving.endpoint.rt.config.SlowClient, max: r.serving.endpoint.rt.config.MaxMessage}
	r.sendAnswer(ctx, w, received)
	if !r.rc.IsKilled() && r.ended.Load() && w.isWhole() {
		// The caller closes the connection after the last frame.
		_ = conn.SetReadDeadline(time.Now().Add(finWait))
		<-reading
	}
	release()
	conn.Close()
	<-reading
	// The answer is complete. The request ends when the engine has released it.
	r.pulling.Wait()
}

// dialCaller connects to the caller. dialCaller uses the shared connection if the caller supports it.
func (r *respondent) dialCaller(ctx context.Context) (conn net.Conn, err error) {
	rt, shared := r.serving.endpoint.rt, r.rq.Headers[sharedHeader]
	ctx, release := context.WithTimeout(ctx, rt.config.CallHome)
	defer release()
	for {
		if shared != "" {
			conn, err = rt.openStream(ctx, callerID{r.home.Address, shared})
		} else {
			conn, err = rt.config.Links.Dial(ctx, r.home.Address)
		}
		if err == nil {
			return conn, nil
		}
		if !errors.Is(err, syscall.EADDRNOTAVAIL) {
			return nil, err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
			return nil, err
		}
	}
}

// readSignals reads and applies the caller's signals until the stream ends.
func (r *respondent) readSignals(from *wire.Reader) {
	for {
		f, err := from.Read()
		if err == nil && f.Kind() == wire.Empty {
			continue
		}
		var s wire.Signal
		if err == nil {
			s, err = wire.ParseSignal(f)
		}
		if err != nil || s != wire.Stop {
			var refused *link.RefusedError
			if errors.As(err, &refused) {
				r.serving.endpoint.rt.log.Warn("no response stream", "request", r.rc.ID(), "reason", err)
			}
			r.applySignal(wire.Kill)
			return
		}
		r.applySignal(wire.Stop)
	}
}

// applySignal stops or kills the request, unless its last item is being sent.
func (r *respondent) applySignal(s wire.Signal) {
	if r.ended.Load() {
		return
	}
	r.signal.Do(r.serving.metrics.Cancelled)
	if s == wire.Stop {
		r.rc.Stop()
		return
	}
	r.rc.Kill()
}

// sendAnswer sends hello, prologue, items and the end.
func (r *respondent) sendAnswer(ctx context.Context, w *frameWriter, received time.Time) {
	m := r.serving.metrics
	w.writeFrame(wire.NewHello(r.home.Subject))
	if w.flushFrames() != nil {
		m.Failed("response_stream")
		return
	}
	items, err := r.callHandler(ctx)
	if err != nil {
		m.Failed("generate")
		r.ended.Store(true)
		if r.writeRefusal(w, err); w.flushFrames() != nil {
			m.Failed("publish_response")
		}
		return
	}
	w.writeFrame(wire.NewPrologue(wire.Prologue{Beats: beatAsked(r.rq.Headers) > 0}))
	if w.flushFrames() != nil {
		m.Failed("publish_response")
		r.rc.Kill()
		return
	}
	if !r.forwardItems(items, w, received) {
		return
	}
	r.ended.Store(true)
	w.writeFrame(wire.NewFinal())
	w.writeFrame(wire.NewSignal(wire.Sentinel))
	if w.flushFrames() != nil {
		m.Failed("publish_final")
	}
}

// writeRefusal writes the error of a call as the first item followed by the end, so that callers do not blame the
// worker. The prologue contains the error, too, for callers that read it there.
func (r *respondent) writeRefusal(w *frameWriter, err error) {
	p := wire.Prologue{}
	if typed, bad := json.Marshal(fault.From(err)); bad == nil {
		p.Fault = typed
	}
	w.writeFrame(wire.NewPrologue(p))
	w.writeFrame(wire.NewPart(errorItem(err)))
	w.writeFrame(wire.NewFinal())
	w.writeFrame(wire.NewSignal(wire.Sentinel))
}

// callHandler calls the handler. A panic becomes the error of this request only.
func (r *respondent) callHandler(ctx context.Context) (items iter.Seq2[Item, error], err error) {
	defer r.recoverPanic(&err)
	return r.serving.handler(ctx, r.rc, r.rq)
}

func (r *respondent) recoverPanic(err *error) {
	if p := recover(); p != nil {
		*err = fault.New(fault.Unknown, "the handler of %v panicked: %v", r.serving.endpoint.name, p)
		r.serving.endpoint.rt.log.Error("panic in a handler", "endpoint", r.serving.endpoint.name.String(), "request", r.rc.ID(), "panic", p)
	}
}

// forwardItems sends the items until the sequence ends, the request is killed, or StopDrain has passed after a stop.
// forwardItems reports whether the end must be sent.
func (r *respondent) forwardItems(items iter.Seq2[Item, error], w *frameWriter, received time.Time) bool {
	whole := make(chan struct{})
	r.pulling.Go(func() {
		defer close(whole)
		r.sendItems(items, w, received)
	})
	var ticks, drained <-chan time.Time
	if every := beatAsked(r.rq.Headers); every > 0 {
		t := time.NewTicker(every)
		defer t.Stop()
		ticks = t.C
	}
	stopped := r.rc.Stopped()
	for {
		select {
		case <-whole:
			return !r.rc.IsKilled() && w.isWhole()
		case <-ticks:
			if !r.serving.alive() {
				continue // the caller times out because it gets no heartbeats
			}
			if err := w.beat(); err != nil {
				r.killBroken(err)
				return false
			}
		case <-stopped:
			stopped = nil
			t := time.NewTimer(r.serving.endpoint.rt.config.StopDrain)
			defer t.Stop()
			drained = t.C
		case <-drained:
			w.shut()
			return !r.rc.IsKilled() && w.isWhole()
		case <-r.rc.Killed():
			return false
		}
	}
}

// sendItems sends the items of the handler's sequence until the request ends. A panic becomes the last item, an
// error. After the last item a panic is only logged.
func (r *respondent) sendItems(items iter.Seq2[Item, error], w *frameWriter, received time.Time) {
	over, first := false, true
	send := func(item json.RawMessage, last, more bool) bool {
		over = over || last
		if r.rc.IsKilled() {
			return false // an answer of the engine to the kill is dropped
		}
		if first {
			r.serving.metrics.First(time.Since(received))
			first = false
		}
		if last {
			r.ended.Store(true)
		}
		if err := w.sendPart(item, more && !last); err != nil {
			if !errors.Is(err, errShut) {
				r.killBroken(err)
			}
			return false
		}
		r.serving.metrics.Sent(len(item))
		return !last
	}
	var err error
	func() {
		defer r.recoverPanic(&err)
		var room []byte
		for item, failed := range items {
			if failed != nil {
				send(errorItem(failed), true, false)
				return
			}
			b, bad := json.RawMessage(item.Data), error(nil)
			if !r.serving.bare {
				b, bad = appendItem(room[:0], &item)
				room = b
			}
			if bad != nil {
				send(errorItem(fault.New(fault.Unknown, "an item of %v: %v", r.serving.endpoint.name, bad)), true, false)
				return
			}
			if !send(b, item.Last, item.More) {
				return
			}
		}
	}()
	if err != nil && !over {
		send(errorItem(err), true, false)
	}
}

// killBroken kills a request after a failed write, once.
func (r *respondent) killBroken(err error) {
	r.broken.Do(func() {
		r.serving.metrics.Failed("publish_response")
		if errors.Is(err, os.ErrDeadlineExceeded) {
			r.serving.endpoint.rt.log.Warn("slow caller killed", "request", r.rc.ID(), "blocked", r.serving.endpoint.rt.config.SlowClient)
		}
		r.ended.Store(false)
		r.applySignal(wire.Kill)
	})
}

// frameWriter writes frames and keeps the first error. Methods that run during the handler's sequence lock mu.
type frameWriter struct {
	conn  net.Conn
	limit time.Duration // limit of one blocked write
	by    time.Time     // current write deadline of the connection
	max   int

	mu     sync.Mutex
	buf    []byte // frames to write at the next flush
	body   []byte
	quiet  bool // no frame was written since the last heartbeat
	closed bool // no more parts are accepted
	err    error
}

// errShut is the error of a part after the end of the answer.
var errShut = errors.New("the answer has ended")

// flushBytes is the number of buffered bytes that causes a flush.
const flushBytes = 4096

func (w *frameWriter) writeFrame(f wire.Frame) {
	switch {
	case w.err != nil:
	case f.Size() > w.max:
		w.err = fmt.Errorf("a frame of %d bytes: must be at most %d", f.Size(), w.max)
	default:
		if w.buf = f.Append(w.buf); len(w.buf) >= flushBytes {
			_ = w.flushFrames()
		}
	}
}

// flushFrames writes the buffered frames. Because a new deadline takes time, a deadline that is almost late enough is
// kept.
func (w *frameWriter) flushFrames() error {
	if w.err == nil {
		if now := time.Now(); w.by.Sub(now) < w.limit*7/8 {
			w.by = now.Add(w.limit)
			_ = w.conn.SetWriteDeadline(w.by)
		}
		_, w.err = w.conn.Write(w.buf)
		w.buf = w.buf[:0]
	}
	return w.err
}

// sendPart writes the frame of an item. If more is set, the frame may be buffered until the next item.
func (w *frameWriter) sendPart(item json.RawMessage, more bool) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.closed {
		return errShut
	}
	w.quiet = false
	w.body = wire.AppendPart(w.body[:0], item)
	if w.writeFrame(wire.Frame{Body: w.body}); !more {
		_ = w.flushFrames()
	}
	return w.err
}

// beat writes an empty frame, unless a frame was written since the last heartbeat.
func (w *frameWriter) beat() error {
	if !w.mu.TryLock() {
		return nil // another frame is being written
	}
	defer w.mu.Unlock()
	if w.quiet {
		w.writeFrame(wire.Frame{})
		_ = w.flushFrames()
	}
	w.quiet = true
	return w.err
}

// shut makes sendPart reject further items.
func (w *frameWriter) shut() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.closed = true
}

// isWhole reports whether all frames so far were written.
func (w *frameWriter) isWhole() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err == nil
}
