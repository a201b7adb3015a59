package drt

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt/wire"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/telemetry"
)

// controlLimit is how long a signal to a worker may take to be written.
const controlLimit = time.Second

// finalLimit is how long a sentinel may come after the end of the items.
const finalLimit = time.Second

// Stream is the response to one call. Its items are to be read to the end, or it
// is to be closed: either releases it.
type Stream struct {
	// Instance is the worker that answers.
	Instance uint64
	// Admitted is when the worker said that it took the request.
	Admitted time.Time

	place      place
	rc         cancel.Context // of this call alone
	conn       net.Conn
	from       *wire.Reader
	inactivity time.Duration

	journey *journey               // nil: it does not migrate
	after   atomic.Pointer[Stream] // what it went on with

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

// open reads the worker's prologue and starts to pass signals on.
func (s *Stream) open(ctx context.Context) error {
	s.closed = make(chan struct{})
	go s.relay(ctx)
	f, err := s.read()
	if err == nil {
		err = s.prologue(f)
	}
	if err != nil {
		s.end(err)
		return err
	}
	s.Admitted = time.Now()
	return nil
}

func (s *Stream) prologue(f wire.Frame) error {
	p, err := wire.ParsePrologue(f)
	if err != nil {
		return fault.New(fault.Disconnected, "%v: prologue of instance %s: %w", s.place.name, hex(s.Instance), err)
	}
	if p.Error == nil {
		return nil
	}
	s.final.Store(true) // it closes by itself
	if len(p.Fault) > 0 {
		typed := new(fault.Error)
		if typed.UnmarshalJSON(p.Fault) == nil {
			return typed
		}
	}
	return fault.New(fault.Unknown, "%s", *p.Error)
}

// relay passes the wishes of the caller on to the worker while the stream lasts.
func (s *Stream) relay(ctx context.Context) {
	select {
	case <-s.closed:
		return
	case <-ctx.Done():
	case <-s.rc.Stopped():
		if !s.rc.IsKilled() {
			s.signal(wire.Stop)
		}
		select {
		case <-s.closed:
			return
		case <-ctx.Done():
		case <-s.rc.Killed():
		}
	}
	s.unwanted.Store(true)
	s.abandon()
}

// signal tells the worker; that it cannot be told shows when it is read from.
func (s *Stream) signal(w wire.Signal) {
	s.writing.Lock()
	defer s.writing.Unlock()
	_ = s.conn.SetWriteDeadline(time.Now().Add(controlLimit))
	_, _ = s.conn.Write(wire.NewSignal(w).Append(nil))
}

// abandon ends the call at once: whoever reads gets an end.
func (s *Stream) abandon() {
	if !s.final.Load() {
		s.signal(wire.Kill)
	}
	s.conn.Close()
}

// Items are the items of the response, to be ranged over once. A stream that
// breaks ends with an error, which is the last element. After the caller's own
// stop, what the worker still sends comes, and then a clean end; after its kill
// nothing more. Breaking out of the loop kills the request unless the worker has
// sent its end.
func (s *Stream) Items() iter.Seq2[Item, error] {
	return func(yield func(Item, error) bool) {
		var failed error
		defer func() { s.end(failed) }()
		for {
			item, more, err := s.next()
			if err != nil && s.journey != nil {
				s.end(err) // the instance is avoided from now on
				if next := s.journey.move(err); next != nil {
					s = s.follow(next)
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
				s.leave() // what was on its way is not wanted
				return
			}
			if s.journey != nil {
				s.journey.note(&item)
			}
			if !yield(item, nil) {
				s.leave()
				return
			}
		}
	}
}

// follow makes next what s goes on with.
func (s *Stream) follow(next *Stream) *Stream {
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
	s.leave()
	s.end(nil)
}

func (s *Stream) leave() {
	select {
	case <-s.closed:
	default:
		s.unwanted.Store(true)
		s.abandon()
	}
}

// end releases everything, once.
func (s *Stream) end(err error) {
	s.once.Do(func() {
		close(s.closed)
		s.conn.Close()
		for i := len(s.onEnd) - 1; i >= 0; i-- {
			s.onEnd[i](err)
		}
	})
}

// next reads an item. more is false at a clean end.
func (s *Stream) next() (item Item, more bool, err error) {
	f, err := s.read()
	if err != nil {
		return Item{}, false, s.cut(err)
	}
	at := time.Now()
	if f.Kind() == wire.Control {
		return Item{}, false, s.early(f)
	}
	p, err := wire.ParsePart(f)
	if err != nil {
		return Item{}, false, s.broken(fault.Unknown, err)
	}
	if p.Final {
		return Item{}, false, s.finish()
	}
	item, failed, err := parseItem(p.Data)
	s.first()
	item.At = at
	switch {
	case err != nil:
		return Item{}, false, s.broken(fault.Unknown, err)
	case failed != nil:
		// An error is the last item: what follows is the end of the stream.
		_ = s.drain()
		return item, false, failed
	}
	return item, true, nil
}

// first tells of the first item, once.
func (s *Stream) first() {
	if s.began {
		return
	}
	s.began = true
	s.metrics.First(time.Since(s.sent))
	if s.onFirst != nil {
		s.onFirst()
	}
}

// read reads a frame that says something.
func (s *Stream) read() (wire.Frame, error) {
	for {
		if s.inactivity > 0 {
			_ = s.conn.SetReadDeadline(time.Now().Add(s.inactivity))
		}
		f, err := s.from.Read()
		if err != nil {
			return f, s.lost(err)
		}
		if f.Kind() != wire.Empty {
			return f, nil
		}
	}
}

// lost is what a failed read means.
func (s *Stream) lost(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return s.broken(fault.ResponseTimeout, fmt.Errorf("nothing came for %v", s.inactivity))
	}
	var bad *wire.Error
	if errors.As(err, &bad) && bad.Reason != "truncated" {
		return s.broken(fault.Disconnected, err)
	}
	return fault.New(fault.Disconnected, "%v: the stream of instance %s broke: %w", s.place.name, hex(s.Instance), err)
}

// cut is what the end of a connection before the end of the items means: an
// error, unless this caller wanted an end.
func (s *Stream) cut(err error) error {
	if (s.unwanted.Load() || s.rc.IsStopped()) && !errors.Is(err, fault.ResponseTimeout) {
		return nil
	}
	return err
}

// early is what a control frame among the items means.
func (s *Stream) early(f wire.Frame) error {
	if signal, err := wire.ParseSignal(f); err == nil && signal == wire.Sentinel {
		if s.rc.IsStopped() {
			s.final.Store(true)
			return nil
		}
		return s.broken(fault.Disconnected, errors.New("sentinel before the end of the items"))
	}
	return s.broken(fault.Disconnected, fmt.Errorf("control frame %.60q among the items", f.Header))
}

// broken kills a stream whose worker does not keep to the protocol.
func (s *Stream) broken(t fault.Type, err error) error {
	s.abandon()
	return fault.New(t, "%v: the stream of instance %s: %w", s.place.name, hex(s.Instance), err)
}

// finish reads the sentinel behind the last item; nothing else may come.
func (s *Stream) finish() error {
	s.final.Store(true)
	_ = s.conn.SetReadDeadline(time.Now().Add(finalLimit))
	f, err := s.from.Read()
	if err != nil {
		var bad *wire.Error
		if errors.Is(err, io.EOF) || !errors.As(err, &bad) {
			return nil // the items are whole
		}
		return s.broken(fault.Disconnected, err)
	}
	if signal, err := wire.ParseSignal(f); err != nil || signal != wire.Sentinel {
		return s.broken(fault.Disconnected, fmt.Errorf("%v after the end of the items", f.Kind()))
	}
	return nil
}

// drain reads the end of a stream after an error item, so that closing it is no
// cancellation.
func (s *Stream) drain() error {
	_ = s.conn.SetReadDeadline(time.Now().Add(finalLimit))
	for {
		f, err := s.from.Read()
		if err != nil {
			return err
		}
		if p, err := wire.ParsePart(f); err == nil && p.Final {
			return s.finish()
		}
	}
}
