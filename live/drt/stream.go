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

// controlLimit is the time limit to write a signal to a worker.
const controlLimit = time.Second

// finalLimit is the time limit for a sentinel after the last item.
const finalLimit = time.Second

// Stream is the response to one call. The caller must read its items to the end or close it, to release its
// resources.
type Stream struct {
	// Instance is the id of the worker that answers.
	Instance uint64
	// Admitted is when the worker's prologue arrived, which accepts the request.
	Admitted time.Time

	place place
	rc    cancel.Context // context of this call only
	conn  net.Conn
	from  *wire.Reader
	wait  vigil
	beat  time.Duration // interval of the heartbeats that the worker was asked for

	journey *journey               // nil: the request does not migrate
	after   atomic.Pointer[Stream] // the stream that continues this stream

	writing  sync.Mutex  // serializes the writing of signals
	final    atomic.Bool // the worker has sent its last item
	unwanted atomic.Bool // the caller has left
	closed   chan struct{}
	once     sync.Once
	onEnd    []func(error) // functions that run in reverse order at the end
	onFirst  func()        // may be nil
	began    bool          // an item has arrived
	sent     time.Time
	metrics  *telemetry.Client
}

// openAnswer reads the worker's prologue and starts to forward signals.
func (s *Stream) openAnswer(ctx context.Context) error {
	s.closed = make(chan struct{})
	go s.relaySignals(ctx)
	s.wait.life = time.Duration(signsOfLife * float64(s.beat)) // also limits the wait for the prologue
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

// signsOfLife is the number of heartbeat intervals without a frame after which the call fails.
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
	s.final.Store(true) // the worker closes the connection
	typed := new(fault.Error)
	if len(p.Fault) > 0 && typed.UnmarshalJSON(p.Fault) == nil {
		return typed
	}
	if p.Error == nil {
		return fault.New(fault.Unknown, "the worker refused the request: %.200s", p.Fault)
	}
	return fault.New(fault.Unknown, "%s", *p.Error)
}

// relaySignals forwards stop and kill of the caller to the worker until the stream ends.
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

// sendSignal sends a signal to the worker. Errors are ignored, because the next read of the connection fails, too.
func (s *Stream) sendSignal(w wire.Signal) {
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = s.conn.SetWriteDeadline(time.Now().Add(controlLimit))
	_, _ = s.conn.Write(wire.NewSignal(w).Append(nil))
}

// abandonCall kills the call and closes the connection, which ends a concurrent read.
func (s *Stream) abandonCall() {
	if !s.final.Load() {
		s.sendSignal(wire.Kill)
	}
	s.conn.Close()
}

// Items returns the sequence of items, which can be read once. If the stream breaks, the last element is an error.
// After a stop by the caller, the remaining items of the worker follow, without an error at the end. After a kill, no
// item follows. Leaving the loop early kills the request unless the worker has sent its last item.
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
				s.leaveEarly() // items that arrived before the kill are dropped
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

// continueWith makes next the continuation of s.
func (s *Stream) continueWith(next *Stream) *Stream {
	next.journey = s.journey
	s.after.Store(next)
	return next
}

// Close ends the stream. Close kills a request that is not finished.
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

// endCall releases the resources of the call, once.
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
		// An error is the last item. Only the end of the stream follows.
		_ = s.drainEnd()
		return item, false, failed
	}
	return item, true, nil
}

// noteFirst records the first item, once.
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

// endOfConnection returns the error of a connection that ends before the end of the items, or nil if the caller
// requested the end.
func (s *Stream) endOfConnection(err error) error {
	if (s.unwanted.Load() || s.rc.IsStopped()) && !errors.Is(err, fault.ResponseTimeout) {
		return nil
	}
	return err
}

// earlyControl returns the error for a control frame among the items.
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

// breakOff kills the stream of a worker that violates the protocol or does not send in time, and returns the error.
func (s *Stream) breakOff(t fault.Type, err error) error {
	s.abandonCall()
	return fault.New(t, "%v: the stream of instance %s: %w", s.place.name, hexID(s.Instance), err)
}

// readSentinel reads the sentinel after the last item. Any other frame is an error.
func (s *Stream) readSentinel() error {
	s.final.Store(true)
	_ = s.conn.SetReadDeadline(time.Now().Add(finalLimit))
	f, err := s.from.Read()
	if err != nil {
		var bad *wire.Error
		if errors.Is(err, io.EOF) || !errors.As(err, &bad) {
			return nil // all items have arrived
		}
		return s.breakOff(fault.Disconnected, err)
	}
	if signal, err := wire.ParseSignal(f); err != nil || signal != wire.Sentinel {
		return s.breakOff(fault.Disconnected, fmt.Errorf("%v after the end of the items", f.Kind()))
	}
	return nil
}

// drainEnd reads the end of a stream after an error item, so that the worker does not count a cancellation.
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
