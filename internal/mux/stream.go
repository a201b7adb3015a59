package mux

import (
	"bytes"
	"io"
	"net"
	"os"
	"time"

	"github.com/replay-llm/replay/internal/bell"
)

// stream is one stream of a connection. One goroutine reads and one writes at a time.
type stream struct {
	conn          *Conn
	id            uint32
	arrived, room bell.Bell

	// Under the connection's mu.
	in              bytes.Buffer // bytes that were not read
	taken           int          // bytes that were read, without a credit for them
	credit          int          // bytes that may be written
	end             error        // of reads after in, and of writes
	readBy, writeBy time.Time
	late            *time.Timer // rings arrived at readBy; may be nil
}

// endWith ends the stream, unless it has ended. The connection's mu is held.
func (s *stream) endWith(err error) {
	if s.end == nil {
		s.end = err
	}
	s.arrived.Ring()
	s.room.Ring()
}

// Read reads bytes that have come, also after the end of the stream or the deadline.
func (s *stream) Read(p []byte) (int, error) {
	for {
		if n, err := s.readArrived(p); n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		<-s.arrived
	}
}

// readArrived reads without waiting.
func (s *stream) readArrived(p []byte) (int, error) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.in.Len() > 0:
		n, _ := s.in.Read(p)
		if s.taken += n; s.taken >= window/2 && s.end == nil {
			c.addFrame(s.id, credit, s.taken, nil)
			s.taken = 0
		}
		return n, nil
	case s.end != nil:
		return 0, s.end
	case !s.readBy.IsZero() && !time.Now().Before(s.readBy):
		return 0, os.ErrDeadlineExceeded
	}
	return 0, nil
}

// Write hands bytes to the connection. It waits while the other side has a window of them unread.
func (s *stream) Write(p []byte) (n int, err error) {
	for len(p) > n {
		some, err := s.put(p[n:])
		if n += some; err != nil {
			return n, err
		}
		if some == 0 && !s.awaitRoom() {
			return n, os.ErrDeadlineExceeded
		}
	}
	return n, nil
}

// put writes as much as there is room for.
func (s *stream) put(p []byte) (int, error) {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case s.end == io.EOF:
		return 0, io.ErrClosedPipe
	case s.end != nil:
		return 0, s.end
	case len(c.out) > mostOut:
		c.full = true
		return 0, nil
	}
	n := min(len(p), s.credit, window/2)
	if n > 0 {
		s.credit -= n
		c.addFrame(s.id, data, n, p[:n])
	}
	return n, nil
}

// awaitRoom waits until there may be room, and reports whether that was before the deadline.
func (s *stream) awaitRoom() bool {
	s.conn.mu.Lock()
	by := s.writeBy
	s.conn.mu.Unlock()
	if by.IsZero() {
		<-s.room
		return true
	}
	limit := time.NewTimer(time.Until(by))
	defer limit.Stop()
	select {
	case <-s.room:
		return true
	case <-limit.C:
		return false
	}
}

// Close ends the stream on both sides. What was written is still delivered.
func (s *stream) Close() error {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.late != nil {
		s.late.Stop()
	}
	s.in.Reset()
	if s.end == nil || s.end == io.EOF { // else a reader gets the reason for which the connection has ended
		s.end = net.ErrClosed
	}
	s.endWith(nil)
	if c.streams[s.id] == s {
		delete(c.streams, s.id)
		c.addFrame(s.id, closed, 0, nil)
		c.closeUnused()
	}
	return nil
}

// LocalAddr returns the address of the connection here.
func (s *stream) LocalAddr() net.Addr { return s.conn.conn.LocalAddr() }

// RemoteAddr returns the address of the other side.
func (s *stream) RemoteAddr() net.Addr { return s.conn.conn.RemoteAddr() }

// SetDeadline sets both deadlines.
func (s *stream) SetDeadline(t time.Time) error {
	_ = s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

// SetReadDeadline sets the deadline of reads, also of one that waits.
func (s *stream) SetReadDeadline(t time.Time) error {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.readBy = t
	switch {
	case t.IsZero() && s.late != nil:
		s.late.Stop()
	case t.IsZero():
	case s.late == nil:
		s.late = time.AfterFunc(time.Until(t), s.arrived.Ring)
	default:
		s.late.Reset(time.Until(t))
	}
	return nil
}

// SetWriteDeadline sets the deadline of writes that begin later.
func (s *stream) SetWriteDeadline(t time.Time) error {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.writeBy = t
	return nil
}
