// Package rendezvous lets a decode worker wait until a prefill worker has computed the prompt of a request. Each
// request has a room, and the workers use TCP.
//
// The prefill worker listens and calls Complete for a room. The decode worker calls Await. If Complete is called
// first, the room keeps a mark until Await.
//
// Protocol: the decode worker writes the room as 8 little-endian bytes and reads one byte. The byte is 1 when the
// room is complete.
package rendezvous

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/link"
	"github.com/replay-llm/replay/live/tcp"
)

// Possible answers for a room, one byte each.
const (
	refused  = 0 // another decode worker waits in the room
	complete = 1
)

// Options configure the connection and the time limits. Zero values mean the defaults.
type Options struct {
	Links *link.Links // default: the links of link.Open

	Wait time.Duration // limit for a connection, an answer, and a completion; default 30 s
	Mark time.Duration // how long a completed room waits for its decode worker; default 60 s
}

func (o Options) withDefaults() Options {
	return Options{Links: link.Open(o.Links), Wait: cmp.Or(max(o.Wait, 0), 30*time.Second), Mark: cmp.Or(max(o.Mark, 0), time.Minute)}
}

// Server is the server of the prefill worker.
type Server struct {
	limits Options
	server *tcp.Server

	mu     sync.Mutex
	closed bool
	rooms  map[uint64]*room
}

// room is a room that one side has entered. A room is removed when the other side arrives.
type room struct {
	released chan struct{} // of a waiting decode worker; closed when the room is complete
	mark     *time.Timer   // removes a completed room that no decode worker enters; nil while a decode worker waits
}

// Listen opens a server at an address such as 127.0.0.1:0.
func Listen(address string, o Options) (*Server, error) {
	o = o.withDefaults()
	l, err := o.Links.Listen("rendezvous", address, 0)
	if err != nil {
		return nil, fault.New(fault.BackendCannotConnect, "%w", err)
	}
	s := &Server{limits: o, server: l, rooms: make(map[uint64]*room)}
	l.Serve(s.answerDecoder)
	return s, nil
}

// Port returns the port of the server.
func (s *Server) Port() int { return s.server.Addr().Port }

// Complete reports that the prompt of a room is computed. Complete releases the decode worker that waits, or a decode
// worker that arrives within Options.Mark.
func (s *Server) Complete(id uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, known := s.rooms[id]
	switch {
	case s.closed:
	case !known:
		marked := &room{}
		marked.mark = time.AfterFunc(s.limits.Mark, func() { s.forgetRoom(id, marked) })
		s.rooms[id] = marked
	case r.mark == nil:
		close(r.released)
		delete(s.rooms, id)
	}
}

// Close rejects all peers and waits until all of them have left.
func (s *Server) Close() {
	s.mu.Lock()
	s.closed = true
	for _, r := range s.rooms {
		if r.mark != nil {
			r.mark.Stop()
		}
	}
	clear(s.rooms)
	s.mu.Unlock()
	s.server.Close()
}

// answerDecoder answers one decode worker.
func (s *Server) answerDecoder(c net.Conn) {
	_ = c.SetDeadline(time.Now().Add(s.limits.Wait))
	var b [8]byte
	if _, err := io.ReadFull(c, b[:]); err != nil {
		return
	}
	id := binary.LittleEndian.Uint64(b[:])
	r, first := s.enterRoom(id)
	switch {
	case !first:
		_, _ = c.Write([]byte{refused})
	case r == nil || s.awaitCompletion(c, id, r):
		_, _ = c.Write([]byte{complete})
	}
}

// enterRoom returns the room to wait in, or nil if the room is already complete. enterRoom reports false if another
// decode worker waits in the room.
func (s *Server) enterRoom(id uint64) (*room, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	r, known := s.rooms[id]
	switch {
	case !known:
		r = &room{released: make(chan struct{})}
		s.rooms[id] = r
		return r, true
	case r.mark == nil:
		return nil, false
	}
	r.mark.Stop()
	delete(s.rooms, id)
	return nil, true
}

// awaitCompletion waits until the room is complete, the time limit ends, or the decode worker disconnects.
// awaitCompletion reports whether the room is complete.
func (s *Server) awaitCompletion(c net.Conn, id uint64, r *room) bool {
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = c.Read(make([]byte, 1)) // the decode worker writes nothing more, so the read ends with the connection or its deadline
	}()
	select {
	case <-r.released:
		return true
	case <-left:
		s.forgetRoom(id, r)
		return false
	}
}

// forgetRoom removes a room, unless a new room has the same id.
func (s *Server) forgetRoom(id uint64, r *room) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rooms[id] == r {
		delete(s.rooms, id)
	}
}

// Await waits at the prefill worker's server until a room is complete. Errors are *fault.Error of a Backend type.
func Await(ctx context.Context, host string, port uint16, id uint64, o Options) error {
	o = o.withDefaults()
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	address := net.JoinHostPort(host, strconv.Itoa(int(port)))
	dialing, release := context.WithTimeout(ctx, o.Wait)
	c, err := o.Links.Dial(dialing, address)
	release()
	var forbidden *link.NotAllowedError
	switch {
	case errors.As(err, &forbidden):
		return fault.New(fault.BackendInvalidArgument, "rendezvous: %w", err)
	case err != nil:
		return fault.New(typeOfError(err, fault.BackendCannotConnect, fault.BackendConnectionTimeout), "rendezvous: %w", err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(o.Wait))
	// The end of ctx aborts the blocking calls below.
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	answer, err := requestRoom(c, id)
	switch {
	case ctx.Err() != nil:
		return fault.New(fault.BackendCancelled, "rendezvous at %s: %w", address, context.Cause(ctx))
	case err != nil:
		return fault.New(typeOfError(err, fault.BackendDisconnected, fault.BackendResponseTimeout),
			"rendezvous at %s: room %d was not completed within %v: %w", address, id, o.Wait, err)
	case answer == refused:
		return fault.New(fault.BackendInvalidArgument, "rendezvous at %s: another decode worker waits in room %d", address, id)
	case answer != complete:
		return fault.New(fault.BackendUnknown, "rendezvous at %s: room %d was answered with %#x, must be %#x", address, id, answer, complete)
	}
	return nil
}

// requestRoom writes a room and reads the answer.
func requestRoom(c net.Conn, id uint64) (byte, error) {
	var b [8]byte
	binary.LittleEndian.PutUint64(b[:], id)
	if _, err := c.Write(b[:]); err != nil {
		return 0, err
	}
	if _, err := io.ReadFull(c, b[:1]); err != nil {
		return 0, fmt.Errorf("the prefill worker's answer: %w", err)
	}
	return b[0], nil
}

// typeOfError returns late if the error is a timeout, else otherwise.
func typeOfError(err error, otherwise, late fault.Type) fault.Type {
	var timeout net.Error
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return late
	}
	return otherwise
}
