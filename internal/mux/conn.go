// Package mux multiplexes streams of two processes over one connection. The package sends the pending bytes of all
// streams in one write.
//
// One process opens streams and the other process accepts the streams. A stream is a net.Conn. Each stream has a
// separate flow-control window, so a slow reader does not delay other streams.
//
// Read conn.go, then stream.go.
package mux

import (
	"bufio"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"runtime"
	"sync"
	"time"

	"github.com/replay-llm/replay/internal/bell"
)

const (
	window   = 64 << 10 // maximum number of unread bytes of a stream
	mostOut  = 1 << 20  // number of pending bytes of the connection above which writes to streams block
	headSize = 8
)

// Kinds of frames. A frame has the number of its stream (4 bytes, big-endian), a kind (1 byte) and a length (3
// bytes). A data frame also has that number of bytes of data.
const (
	opened byte = iota // opens a stream
	data               // has bytes of a stream
	credit             // its length is the number of bytes that were read
	closed             // closes a stream
)

// Conn is a connection that carries streams.
type Conn struct {
	conn   net.Conn
	accept func(net.Conn) // nil: the other side cannot open streams
	ended  func()
	ready  bell.Bell // there are bytes to write

	mu         sync.Mutex
	out, spare []byte
	streams    map[uint32]*stream
	latest     uint32 // number of the latest stream
	full       bool   // a stream waits for space in out
	closing    bool   // close the connection when it has no more streams
	unwritten  error  // error of a failed write
	err        error  // reason for which the connection has ended
}

// New runs streams over conn and reads frames with from. accept serves a stream that the other side opens, in a
// separate goroutine. If accept is nil, the other side cannot open streams. ended is called when the connection has
// ended.
func New(conn net.Conn, from io.Reader, accept func(net.Conn), ended func()) *Conn {
	c := &Conn{conn: conn, accept: accept, ended: ended, ready: bell.New(), streams: make(map[uint32]*stream)}
	go c.writeFrames()
	go func() { c.end(c.reasonOf(c.readFrames(bufio.NewReaderSize(from, window)))) }()
	return c
}

// Open opens a stream.
func (c *Conn) Open() (net.Conn, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return nil, c.err
	}
	c.latest++
	c.addFrame(c.latest, opened, 0, nil)
	return c.addStream(c.latest), nil
}

// Close closes the connection and all streams.
func (c *Conn) Close() { c.conn.Close() }

// CloseIdle closes the connection when it has no open streams.
func (c *Conn) CloseIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
	c.closeUnused()
}

// closeUnused closes the connection if CloseIdle was called and it has no open streams. The caller holds c.mu.
func (c *Conn) closeUnused() {
	if c.closing && len(c.streams) == 0 {
		c.conn.Close() // the reading goroutine does the other cleanup
	}
}

// end ends the connection and its streams. Only the first call has an effect.
func (c *Conn) end(err error) {
	c.mu.Lock()
	if c.err != nil {
		c.mu.Unlock()
		return
	}
	c.err = err
	for id, s := range c.streams {
		delete(c.streams, id)
		s.endWith(err)
	}
	c.mu.Unlock()
	c.ready.Ring()
	c.conn.Close()
	c.ended()
}

// addStream adds a stream. The caller holds c.mu.
func (c *Conn) addStream(id uint32) *stream {
	s := &stream{conn: c, id: id, arrived: bell.New(), room: bell.New(), credit: window}
	c.streams[id] = s
	return s
}

// addFrame adds a frame to the next write. The caller holds c.mu.
func (c *Conn) addFrame(id uint32, kind byte, length int, b []byte) {
	c.out = binary.BigEndian.AppendUint32(c.out, id)
	c.out = binary.BigEndian.AppendUint32(c.out, uint32(kind)<<24|uint32(length))
	c.out = append(c.out, b...)
	c.ready.Ring()
}

// writeFrames writes pending frames until the connection ends.
func (c *Conn) writeFrames() {
	for range c.ready {
		runtime.Gosched() // lets other streams add their frames first
		c.mu.Lock()
		if c.err != nil {
			c.mu.Unlock()
			return
		}
		b := c.out
		c.out, c.spare = c.spare[:0], b
		if c.full {
			c.full = false
			for _, s := range c.streams {
				s.room.Ring()
			}
		}
		c.mu.Unlock()
		if len(b) == 0 {
			continue
		}
		if _, err := c.conn.Write(b); err != nil {
			c.failWrite(err)
			return
		}
	}
}

// lastRead is how long the connection is read after a failed write, because the other side may have sent the reason.
const lastRead = time.Second

// failWrite records the error of a write. The reading goroutine ends the connection.
func (c *Conn) failWrite(err error) {
	c.mu.Lock()
	c.unwritten = err
	c.mu.Unlock()
	if c.conn.SetReadDeadline(time.Now().Add(lastRead)) != nil {
		c.end(err)
	}
}

// reasonOf returns the reason for which the connection has ended. err is the error of its reader.
func (c *Conn) reasonOf(err error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.unwritten != nil && errors.Is(err, os.ErrDeadlineExceeded) {
		return c.unwritten
	}
	return err
}

// readFrames reads frames until the connection ends, and returns the error.
func (c *Conn) readFrames(from *bufio.Reader) error {
	for {
		head, err := from.Peek(headSize)
		if err != nil {
			return atEnd(head, err)
		}
		id, rest := binary.BigEndian.Uint32(head), binary.BigEndian.Uint32(head[4:])
		kind, length := byte(rest>>24), int(rest&(1<<24-1))
		size := headSize
		if kind == data {
			size += length
		}
		frame, err := from.Peek(size)
		if err != nil {
			return atEnd(frame, err)
		}
		if err := c.takeFrame(id, kind, length, frame[headSize:]); err != nil {
			return fmt.Errorf("mux: stream %d: %w", id, err)
		}
		_, _ = from.Discard(size) // Peek has already returned these bytes
	}
}

// atEnd returns io.ErrUnexpectedEOF if the connection ended inside a frame, and err otherwise. b is the part of the
// frame that was read.
func atEnd(b []byte, err error) error {
	if len(b) > 0 && errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// takeFrame handles a frame. takeFrame ignores frames of streams that this side has closed.
func (c *Conn) takeFrame(id uint32, kind byte, length int, b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.streams[id]
	switch {
	case kind == opened && (c.accept == nil || id <= c.latest):
		return errors.New("is opened, must be a new one of the side that opens streams")
	case kind == opened:
		c.latest = id
		s = c.addStream(id)
		go c.accept(s)
	case kind > closed:
		return fmt.Errorf("frame of kind %d, must be at most %d", kind, closed)
	case s == nil:
	case kind == data:
		if s.in.Len()+length > window {
			return fmt.Errorf("%d bytes are unread, must be at most %d", s.in.Len()+length, window)
		}
		s.in.Write(b)
		s.arrived.Ring()
	case kind == credit:
		s.credit = min(s.credit+length, window)
		s.room.Ring()
	case kind == closed:
		delete(c.streams, id)
		s.endWith(io.EOF)
		c.closeUnused()
	}
	return nil
}
