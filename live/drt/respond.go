package drt

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"iter"
	"net"
	"os"
	"syscall"
	"time"

	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt/wire"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/link"
)

// buffered is how many items wait for a slow caller before the engine's sequence is not pulled any more.
const buffered = 64

// finWait is how long a worker waits for the caller to close, after its last frame.
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
	w := &frameWriter{conn: conn, buf: bufio.NewWriter(conn), limit: r.serving.endpoint.rt.config.SlowClient, max: r.serving.endpoint.rt.config.MaxMessage}
	r.sendAnswer(ctx, w, received)
	if w.err == nil && r.ended.Load() && !r.rc.IsKilled() {
		// The caller closes when it has seen the end.
		_ = conn.SetReadDeadline(time.Now().Add(finWait))
		<-reading
	}
	release()
	conn.Close()
	<-reading
	// The caller has what it gets. The request is over when the engine has released it.
	r.pulling.Wait()
}

// dialCaller connects to the caller and sends the id of the request.
func (r *respondent) dialCaller(ctx context.Context) (net.Conn, error) {
	ctx, release := context.WithTimeout(ctx, r.serving.endpoint.rt.config.CallHome)
	defer release()
	for {
		conn, err := r.serving.endpoint.rt.config.Links.Dial(ctx, r.home.Address)
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

// readSignals reads the caller's signals until their end.
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

// applySignal acts on a signal, unless the last item is on its way.
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
	if !r.forwardItems(ctx, items, w, received) {
		return
	}
	r.ended.Store(true)
	w.writeFrame(wire.NewFinal())
	w.writeFrame(wire.NewSignal(wire.Sentinel))
	if w.flushFrames() != nil {
		m.Failed("publish_final")
	}
}

// writeRefusal writes the error of a call: as the first item and the end, as the
// error of a worker that is well, and in the prologue for callers that know it there.
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

// callHandler calls the handler; a panic is an error of this request alone.
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

// forwardItems sends the items until the sequence ends, or the request is killed or stopped for longer than a terminal
// item may take. It reports whether an end is to be sent.
func (r *respondent) forwardItems(ctx context.Context, items iter.Seq2[Item, error], w *frameWriter, received time.Time) bool {
	ctx, gone := context.WithCancel(ctx)
	queue := make(chan wirePart, buffered)
	r.pulling.Go(func() {
		defer close(queue)
		r.pullItems(ctx, items, queue)
	})
	whole := r.sendParts(queue, w, received)
	gone()
	return whole || w.err == nil && !r.rc.IsKilled()
}

// wirePart is an item as it goes over the wire.
type wirePart struct {
	item       json.RawMessage
	last, more bool // as of an Item
}

// pullItems takes items from the handler's sequence into queue until they are read no more. A panic ends the sequence
// with an error, unless the last item was sent: a later panic is only logged.
func (r *respondent) pullItems(ctx context.Context, items iter.Seq2[Item, error], queue chan<- wirePart) {
	over := false
	put := func(p wirePart) bool {
		over = over || p.last
		select {
		case queue <- p:
			return !p.last
		case <-ctx.Done():
			return false
		}
	}
	var err error
	func() {
		defer r.recoverPanic(&err)
		for item, failed := range items {
			if failed != nil {
				put(wirePart{item: errorItem(failed), last: true})
				return
			}
			b, bad := json.RawMessage(item.Data), error(nil)
			if !r.serving.bare {
				b, bad = encodeItem(&item)
			}
			if bad != nil {
				put(wirePart{item: errorItem(fault.New(fault.Unknown, "an item of %v: %v", r.serving.endpoint.name, bad)), last: true})
				return
			}
			if !put(wirePart{b, item.Last, item.More}) {
				return
			}
		}
	}()
	if err != nil && !over {
		put(wirePart{item: errorItem(err), last: true})
	}
}

// sendParts writes parts as they come. It reports whether it wrote all there were.
func (r *respondent) sendParts(queue <-chan wirePart, w *frameWriter, received time.Time) bool {
	m := r.serving.metrics
	var drained <-chan time.Time
	stopped, first := r.rc.Stopped(), true
	pulse := newPulse(beatAsked(r.rq.Headers))
	defer pulse.stop()
	for {
		select {
		case p, more := <-queue:
			if r.rc.IsKilled() {
				return false // whatever the engine has said to that
			}
			if !more {
				return true
			}
			if first {
				m.First(time.Since(received))
				first = false
			}
			if p.last {
				r.ended.Store(true)
			}
			w.writePart(p.item)
			m.Sent(len(p.item))
			if len(queue) == 0 && !p.more || p.last {
				_ = w.flushFrames()
			}
			pulse.quiet = false
			if w.err != nil {
				r.killBroken(w.err)
				return false
			}
		case <-pulse.ticks():
			if !r.serving.alive() {
				continue // until the caller gives up
			}
			if pulse.beat(w); w.err != nil {
				r.killBroken(w.err)
				return false
			}
		case <-stopped:
			stopped = nil
			t := time.NewTimer(r.serving.endpoint.rt.config.StopDrain)
			defer t.Stop()
			drained = t.C
		case <-drained:
			return false
		case <-r.rc.Killed():
			return false
		}
	}
}

// killBroken ends a request with items that cannot be written.
func (r *respondent) killBroken(err error) {
	r.serving.metrics.Failed("publish_response")
	if errors.Is(err, os.ErrDeadlineExceeded) {
		r.serving.endpoint.rt.log.Warn("slow caller killed", "request", r.rc.ID(), "blocked", r.serving.endpoint.rt.config.SlowClient)
	}
	r.ended.Store(false)
	r.applySignal(wire.Kill)
}

// frameWriter writes frames and keeps the first error.
type frameWriter struct {
	conn  net.Conn
	buf   *bufio.Writer
	limit time.Duration // for one blocked write
	max   int
	bytes []byte
	body  []byte
	err   error
}

func (w *frameWriter) writeFrame(f wire.Frame) {
	if w.err != nil {
		return
	}
	if f.Size() > w.max {
		w.err = fmt.Errorf("a frame of %d bytes: must be at most %d", f.Size(), w.max)
		return
	}
	w.bytes = f.Append(w.bytes[:0])
	if len(w.bytes) > w.buf.Available() {
		_ = w.conn.SetWriteDeadline(time.Now().Add(w.limit))
	}
	_, w.err = w.buf.Write(w.bytes)
}

// writePart writes the frame of an item.
func (w *frameWriter) writePart(item json.RawMessage) {
	w.body = wire.AppendPart(w.body[:0], item)
	w.writeFrame(wire.Frame{Body: w.body})
}

func (w *frameWriter) flushFrames() error {
	if w.err == nil {
		_ = w.conn.SetWriteDeadline(time.Now().Add(w.limit))
		w.err = w.buf.Flush()
	}
	return w.err
}
