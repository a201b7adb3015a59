// Package rendezvous is where a decode worker waits until a prefill worker has
// computed the prompt of its request: a room per request, over TCP.
//
// The prefill worker listens and calls Complete for a room; the decode worker calls Await. The first side waits
// for the other: a completed room leaves a mark.
//
// On the wire, the decode worker writes the room as 8 bytes, little-endian, and
// reads one byte: 1 when the room is complete.
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

// The bytes that answer a room.
const (
	refused  = 0 // another decode worker waits there
	complete = 1
)

// Options are how to connect and how long to wait. Zero values mean the defaults.
type Options struct {
	Links *link.Links // default: those of link.Open

	Wait time.Duration // for a connection, an answer, a completion; default 30 s
	Mark time.Duration // for a decode worker to collect a completed room; default 60 s
}

func (o Options) withDefaults() Options {
	return Options{Links: link.Open(o.Links), Wait: cmp.Or(max(o.Wait, 0), 30*time.Second), Mark: cmp.Or(max(o.Mark, 0), time.Minute)}
}

// Server is the prefill worker's side.
type Server struct {
	limits Options
	server *tcp.Server

	mu     sync.Mutex
	closed bool
	rooms  map[uint64]*room
}

// room is a room that one side has come to. It is forgotten when both have.
type room struct {
	released chan struct{} // closed when complete; of a waiting decode worker
	mark     *time.Timer   // forgets a completed room without a decode worker; nil while one waits
}

// Listen opens a server at an address, as 127.0.0.1:0.
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

// Port returns where the server listens.
func (s *Server) Port() int { return s.server.Addr().Port }

// Complete releases the decode worker that waits for a room, or will within the limit of marks: its prompt is
// computed.
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

// Close rejects all peers and waits until all are gone.
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

// enterRoom returns the room to wait in, nil if it is complete already. It reports false if another decode
// worker waits there.
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

// awaitCompletion waits until a room is complete, the limit is over, or the other side
// leaves.
func (s *Server) awaitCompletion(c net.Conn, id uint64, r *room) bool {
	left := make(chan struct{})
	go func() {
		defer close(left)
		_, _ = c.Read(make([]byte, 1)) // nothing more is said, so it ends with the connection or its deadline
	}()
	select {
	case <-r.released:
		return true
	case <-left:
		s.forgetRoom(id, r)
		return false
	}
}

// forgetRoom removes a room if it still is this one.
func (s *Server) forgetRoom(id uint64, r *room) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rooms[id] == r {
		delete(s.rooms, id)
	}
}

// Await waits at the prefill worker's server until a room is complete. Errors are
// *fault.Error of a Backend type.
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
	// The end of ctx ends what blocks below.
	defer context.AfterFunc(ctx, func() { _ = c.SetDeadline(time.Unix(1, 0)) })()
	answer, err := askForRoom(c, id)
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

// askForRoom writes a room and reads the answer.
func askForRoom(c net.Conn, id uint64) (byte, error) {
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

// typeOfError returns late for an error that is a timeout, else otherwise.
func typeOfError(err error, otherwise, late fault.Type) fault.Type {
	var timeout net.Error
	if errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &timeout) && timeout.Timeout() {
		return late
	}
	return otherwise
}
