package mux

import (
	"bytes"
	"io"
	"net"
	"os"
	"time"

	"github.com/replay-llm/replay/internal/bell"
)

// stream is a stream of a connection. At most one goroutine reads and at most one goroutine writes.
type stream struct {
	conn          *Conn
	id            uint32
	arrived, room bell.Bell

	// The mutex of the connection guards these fields.
	in              bytes.Buffer // bytes that were received and not read
	taken           int          // number of bytes that were read and not yet credited to the other side
	credit          int          // number of bytes that may be written
	end             error        // error of writes, and of reads when in is empty
	readBy, writeBy time.Time
	late            *time.Timer // timer that rings arrived at readBy; may be nil
}

// endWith ends the stream with an error, unless it has ended before. The caller holds the mutex of the connection.
func (s *stream) endWith(err error) {
	if s.end == nil {
		s.end = err
	}
	s.arrived.Ring()
	s.room.Ring()
}

// Read returns received bytes, even after the end of the stream or after the deadline.
func (s *stream) Read(p []byte) (int, error) {
	for {
		if n, err := s.readArrived(p); n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
		<-s.arrived
	}
}

// readArrived returns received bytes without blocking.
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

// Write adds bytes to the output of the connection. Write blocks while the other side has a full window of unread
// bytes.
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

// put writes as many bytes as the window and the output of the connection permit.
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

// awaitRoom waits until more bytes may be written. awaitRoom reports false at the write deadline.
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

// Close closes the stream on both sides. Bytes that were already written are still sent.
func (s *stream) Close() error {
	c := s.conn
	c.mu.Lock()
	defer c.mu.Unlock()
	if s.late != nil {
		s.late.Stop()
	}
	s.in.Reset()
	if s.end == nil || s.end == io.EOF { // otherwise the reader gets the reason for which the connection has ended
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

// LocalAddr returns the local address of the connection.
func (s *stream) LocalAddr() net.Addr { return s.conn.conn.LocalAddr() }

// RemoteAddr returns the remote address of the connection.
func (s *stream) RemoteAddr() net.Addr { return s.conn.conn.RemoteAddr() }

// SetDeadline sets the deadlines of reads and writes.
func (s *stream) SetDeadline(t time.Time) error {
	_ = s.SetReadDeadline(t)
	return s.SetWriteDeadline(t)
}

// SetReadDeadline sets the deadline of current and later reads.
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

// SetWriteDeadline sets the deadline of later writes.
func (s *stream) SetWriteDeadline(t time.Time) error {
	s.conn.mu.Lock()
	defer s.conn.mu.Unlock()
	s.writeBy = t
	return nil
}
