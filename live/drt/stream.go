package drt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/internal/wire"
	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/telemetry"
)

// controlLimit is how long a signal to a worker may take to be written.
const controlLimit = time.Second

// finalLimit is how long a sentinel may come after the end of the items.
const finalLimit = time.Second

// Stream is the response to one call. Its items are to be read to the end, or it is to be closed: either releases it.
type Stream struct {
	// Instance is the worker that answers.
	Instance uint64
	// Admitted is when the worker said that it took the request.
	Admitted time.Time

	place place
	rc    cancel.Context // of this call alone
	conn  net.Conn
	from  *wire.Reader
	wait  vigil
	beat  time.Duration // how often the worker was asked to show that it lives

	journey *journey               // nil: it does not migrate
	after   atomic.Pointer[Stream] // what it continued with

	writing  sync.Mutex  // of signals
	final    atomic.Bool // the worker has sent all it will
	unwanted atomic.Bool // the caller has gone away
	closed   chan struct{}
	once     sync.Once
	onEnd    []func(error) // called last first
	onFirst  func()        // may be nil
	began    bool          // there was an item
	sent     time.Time
	metrics  *telemetry.Client
}

// openAnswer reads the worker's prologue and starts to pass signals on.
func (s *Stream) openAnswer(ctx context.Context) error {
	s.closed = make(chan struct{})
	go s.relaySignals(ctx)
	s.wait.life = time.Duration(signsOfLife * float64(s.beat)) // for the prologue, too
	f, err := s.readFrame()
	if err == nil {
		err = s.checkPrologue(f)
	}
	if err != nil {
		s.endCall(err)
		return err
	}
	s.Admitted = time.Now()
	return nil
}

// signsOfLife is how many heartbeats may be missed.
const signsOfLife = 4.5

func (s *Stream) checkPrologue(f wire.Frame) error {
	p, err := wire.ParsePrologue(f)
	if err != nil {
		return fault.New(fault.Disconnected, "%v: prologue of instance %s: %w", s.place.name, hexID(s.Instance), err)
	}
	if p.Error == nil && len(p.Fault) == 0 {
		if !p.Beats {
			s.wait.life = 0
			_ = s.conn.SetReadDeadline(time.Time{})
		}
		return nil
	}
	s.final.Store(true) // it closes alone
	typed := new(fault.Error)
	if len(p.Fault) > 0 && typed.UnmarshalJSON(p.Fault) == nil {
		return typed
	}
	if p.Error == nil {
		return fault.New(fault.Unknown, "the worker refused the request: %.200s", p.Fault)
	}
	return fault.New(fault.Unknown, "%s", *p.Error)
}

// relaySignals passes the wishes of the caller on to the worker while the stream lasts.
func (s *Stream) relaySignals(ctx context.Context) {
	select {
	case <-s.closed:
		return
	case <-ctx.Done():
	case <-s.rc.Stopped():
		if !s.rc.IsKilled() {
			s.sendSignal(wire.Stop)
		}
		select {
		case <-s.closed:
			return
		case <-ctx.Done():
		case <-s.rc.Killed():
		}
	}
	s.unwanted.Store(true)
	s.abandonCall()
}

// sendSignal sends a signal to the worker. That it cannot be sent shows when it is read from.
func (s *Stream) sendSignal(w wire.Signal) {
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = s.conn.SetWriteDeadline(time.Now().Add(controlLimit))
	_, _ = s.conn.Write(wire.NewSignal(w).Append(nil))
}

// abandonCall ends the call at once: a reader gets an end.
func (s *Stream) abandonCall() {
	if !s.final.Load() {
		s.sendSignal(wire.Kill)
	}
	s.conn.Close()
}

// Items returns the items of the response, to be ranged over once. A stream that breaks ends with an error, which is the
// last element. After the caller's own stop, what the worker still sends comes, and then a clean end; after its kill
// nothing more. Breaking out of the loop kills the request unless the worker has sent its end.
func (s *Stream) Items() iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		var failed error
		defer func() { s.endCall(failed) }()
		for {
			item, more, err := s.nextItem()
			if err != nil && s.journey != nil {
				s.endCall(err) // the instance is avoided from now on
				if next := s.journey.sendRest(err); next != nil {
					s = s.continueWith(next)
					continue
				}
			}
			if err != nil {
				failed = err
				yield(item, err)
				return
			}
			if !more {
				return
			}
			if s.rc.IsKilled() {
				s.leaveEarly() // what was on its way is not wanted
				return
			}
			if s.journey != nil {
				s.journey.noteItem(&item)
			}
			if !yield(item, nil) {
				s.leaveEarly()
				return
			}
		}
	}
}

// continueWith makes next what s continues with.
func (s *Stream) continueWith(next *Stream) *Stream {
	next.journey = s.journey
	s.after.Store(next)
	return next
}

// Close ends the stream; a request that is not over is killed.
func (s *Stream) Close() {
	if next := s.after.Load(); next != nil {
		next.Close()
		return
	}
	s.leaveEarly()
	s.endCall(nil)
}

func (s *Stream) leaveEarly() {
	select {
	case <-s.closed:
	default:
		s.unwanted.Store(true)
		s.abandonCall()
	}
}

// endCall releases everything, once.
func (s *Stream) endCall(err error) {
	s.once.Do(func() {
		close(s.closed)
		s.conn.Close()
		for i := len(s.onEnd) - 1; i >= 0; i-- {
			s.onEnd[i](err)
		}
	})
}

// nextItem reads an item. more is false at a clean end.
func (s *Stream) nextItem() (item Item, more bool, err error) {
	f, err := s.readFrame()
	if err != nil {
		return Item{}, false, s.endOfConnection(err)
	}
	at := time.Now()
	if f.Kind() == wire.Control {
		return Item{}, false, s.earlyControl(f)
	}
	p, err := wire.ParsePart(f)
	if err != nil {
		return Item{}, false, s.breakOff(fault.Unknown, err)
	}
	if p.Final {
		return Item{}, false, s.readSentinel()
	}
	item, failed, err := parseItem(p.Data)
	s.noteFirst()
	item.At, item.More = at, s.from.IsReady()
	switch {
	case err != nil:
		return Item{}, false, s.breakOff(fault.Unknown, err)
	case failed != nil:
		// An error is the last item: what follows is the end of the stream.
		_ = s.drainEnd()
		return item, false, failed
	}
	return item, true, nil
}

// noteFirst notes the first item, once.
func (s *Stream) noteFirst() {
	if s.began {
		return
	}
	s.began = true
	s.metrics.First(time.Since(s.sent))
	if s.onFirst != nil {
		s.onFirst()
	}
}

// endOfConnection returns the meaning of a connection that ends before the end of the items: an error, unless this
// caller requested an end.
func (s *Stream) endOfConnection(err error) error {
	if (s.unwanted.Load() || s.rc.IsStopped()) && !errors.Is(err, fault.ResponseTimeout) {
		return nil
	}
	return err
}

// earlyControl returns what a control frame among the items means.
func (s *Stream) earlyControl(f wire.Frame) error {
	if signal, err := wire.ParseSignal(f); err == nil && signal == wire.Sentinel {
		if s.rc.IsStopped() {
			s.final.Store(true)
			return nil
		}
		return s.breakOff(fault.Disconnected, errors.New("sentinel before the end of the items"))
	}
	return s.breakOff(fault.Disconnected, fmt.Errorf("control frame %.60q among the items", f.Header))
}

// breakOff kills the stream of a worker that violates the protocol.
func (s *Stream) breakOff(t fault.Type, err error) error {
	s.abandonCall()
	return fault.New(t, "%v: the stream of instance %s: %w", s.place.name, hexID(s.Instance), err)
}

// readSentinel reads the sentinel behind the last item; nothing else may come.
func (s *Stream) readSentinel() error {
	s.final.Store(true)
	_ = s.conn.SetReadDeadline(time.Now().Add(finalLimit))
	f, err := s.from.Read()
	if err != nil {
		var bad *wire.Error
		if errors.Is(err, io.EOF) || !errors.As(err, &bad) {
			return nil // the items are whole
		}
		return s.breakOff(fault.Disconnected, err)
	}
	if signal, err := wire.ParseSignal(f); err != nil || signal != wire.Sentinel {
		return s.breakOff(fault.Disconnected, fmt.Errorf("%v after the end of the items", f.Kind()))
	}
	return nil
}

// drainEnd reads the end of a stream after an error item, so that closing it is no cancellation.
func (s *Stream) drainEnd() error {
	_ = s.conn.SetReadDeadline(time.Now().Add(finalLimit))
	for {
		f, err := s.from.Read()
		if err != nil {
			return err
		}
		if p, err := wire.ParsePart(f); err == nil && p.Final {
			return s.readSentinel()
		}
	}
}
