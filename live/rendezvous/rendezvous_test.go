package rendezvous

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// long is a limit that no test reaches.
const long = time.Minute

func listenAt(t *testing.T, limits Options) *Server {
	t.Helper()
	s, err := Listen("127.0.0.1:0", limits)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// Rooms returns the number of rooms in which one side waits.
func (s *Server) Rooms() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.rooms)
}

func (s *Server) awaitRoom(t *testing.T, id uint64, wait time.Duration) error {
	return Await(t.Context(), "127.0.0.1", uint16(s.Port()), id, Options{Wait: wait})
}

// occupied waits until one side waits in n rooms.
func (s *Server) occupied(t *testing.T, n int) {
	t.Helper()
	poll.Until(t, fmt.Sprintf("%d rooms", n), func() bool { return s.Rooms() == n })
}

// A decode worker may arrive before or after Complete, and rooms are removed afterwards.
func TestBothOrders(t *testing.T) {
	s := listenAt(t, Options{Wait: long})
	s.Complete(1)
	s.Complete(1)
	if err := s.awaitRoom(t, 1, long); err != nil {
		t.Errorf("decode after prefill: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- s.awaitRoom(t, 1<<63-1, long) }()
	s.occupied(t, 1)
	select {
	case err := <-done:
		t.Fatalf("decode before prefill did not wait: %v", err)
	default:
	}
	s.Complete(1<<63 - 1)
	if err := <-done; err != nil {
		t.Errorf("decode before prefill: %v", err)
	}
	s.occupied(t, 0)
}

// A second decode worker in a room is refused, and the first one still gets its answer.
func TestSecondWaiter(t *testing.T) {
	s := listenAt(t, Options{Wait: long})
	done := make(chan error, 1)
	go func() { done <- s.awaitRoom(t, 7, long) }()
	s.occupied(t, 1)
	if err := s.awaitRoom(t, 7, long); !errors.Is(err, fault.BackendInvalidArgument) {
		t.Errorf("a second one in the room: %v", err)
	}
	s.Complete(7)
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// Every wait is limited: for a missing prefill worker, a missing decode worker, and a decode worker that sends
// nothing or disconnects.
func TestLimits(t *testing.T) {
	s := listenAt(t, Options{Wait: long, Mark: 20 * time.Millisecond})
	if err := s.awaitRoom(t, 1, 30*time.Millisecond); !errors.Is(err, fault.BackendResponseTimeout) {
		t.Errorf("a prefill that is missing: %v", err)
	}
	s.occupied(t, 0) // the room of a decode worker that left is removed
	s.Complete(2)
	s.occupied(t, 0) // the mark is removed too

	short := listenAt(t, Options{Wait: 20 * time.Millisecond})
	if err := short.awaitRoom(t, 1, long); !errors.Is(err, fault.BackendDisconnected) {
		t.Errorf("a server that gave up: %v", err)
	}
	mute, err := net.Dial("tcp", short.server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	if n, err := mute.Read(make([]byte, 1)); n != 0 || err == nil {
		t.Errorf("who says nothing is answered: %d, %v", n, err)
	}
}

// The caller's ctx ends the wait.
func TestCancelled(t *testing.T) {
	s := listenAt(t, Options{Wait: long})
	ctx, leave := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- Await(ctx, "[127.0.0.1]", uint16(s.Port()), 5, Options{Wait: long}) }()
	s.occupied(t, 1)
	leave()
	if err := <-done; !errors.Is(err, fault.BackendCancelled) || !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
	s.occupied(t, 0)
}

// Await returns an error if there is no server or the server sends wrong answers.
func TestBadServers(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		c, err := l.Accept()
		if err != nil {
			return
		}
		defer c.Close()
		b := make([]byte, 8)
		if _, err := c.Read(b); err != nil || b[0] != 5 || b[7] != 0 {
			t.Errorf("read %v (%v), want 5 in little-endian", b, err)
		}
		_, _ = c.Write([]byte{9})
	})
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	if err := Await(t.Context(), "127.0.0.1", port, 5, Options{}); !errors.Is(err, fault.BackendUnknown) {
		t.Errorf("a nonsensical answer: %v", err)
	}
	serving.Wait()
	l.Close()
	if err := Await(t.Context(), "127.0.0.1", port, 5, Options{}); !errors.Is(err, fault.BackendCannotConnect) {
		t.Errorf("nobody there: %v", err)
	}
	if _, err := Listen("256.0.0.1:0", Options{}); !errors.Is(err, fault.BackendCannotConnect) {
		t.Errorf("a bad address: %v", err)
	}
}

// Close ends the waiting calls and removes the marks.
func TestClose(t *testing.T) {
	s := listenAt(t, Options{Wait: long})
	s.Complete(9)
	done := make(chan error, 1)
	go func() { done <- s.awaitRoom(t, 3, long) }()
	s.occupied(t, 2)
	s.Close()
	if err := <-done; !errors.Is(err, fault.BackendDisconnected) {
		t.Errorf("closed: %v", err)
	}
	s.Complete(4)
	s.occupied(t, 0)
}

// Complete and Await of many rooms run in random order.
func TestManyRooms(t *testing.T) {
	s := listenAt(t, Options{Wait: long})
	var wg sync.WaitGroup
	for i := range uint64(200) {
		wg.Go(func() { s.Complete(i) })
		wg.Go(func() {
			if err := s.awaitRoom(t, i, long); err != nil {
				t.Errorf("room %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	s.occupied(t, 0)
}
