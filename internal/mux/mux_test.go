package mux

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/replay-llm/replay/internal/poll"
)

// pair has both ends of a connection with streams.
type pair struct {
	opens, accepts *Conn
	accepted       chan net.Conn
	ended          atomic.Int32
}

// connect connects two ends. If wrap is not nil, it wraps the connection of the side that opens streams.
func connect(t *testing.T, wrap func(net.Conn) net.Conn) *pair {
	t.Helper()
	near, far := net.Pipe()
	if wrap != nil {
		near = wrap(near)
	}
	p := &pair{accepted: make(chan net.Conn, 1000)}
	note := func() { p.ended.Add(1) }
	p.accepts = New(far, far, func(s net.Conn) { p.accepted <- s }, note)
	p.opens = New(near, near, nil, note)
	t.Cleanup(func() {
		near.Close()
		far.Close()
		if !poll.Wait(func() bool { return p.ended.Load() == 2 }) {
			t.Errorf("%d ends of the connection have ended, want 2", p.ended.Load())
		}
	})
	return p
}

// open opens a stream and returns both ends.
func (p *pair) open(t *testing.T) (worker, caller net.Conn) {
	t.Helper()
	worker, err := p.opens.Open()
	if err != nil {
		t.Fatal(err)
	}
	return worker, <-p.accepted
}

func write(t *testing.T, c net.Conn, text string) {
	t.Helper()
	if n, err := io.WriteString(c, text); err != nil || n != len(text) {
		t.Errorf("%d of %d bytes written: %v", n, len(text), err)
	}
}

func read(t *testing.T, c net.Conn, want string) {
	t.Helper()
	got := make([]byte, len(want))
	if _, err := io.ReadFull(c, got); err != nil || string(got) != want {
		t.Errorf("read %q, %v, want %q", got, err, want)
	}
}

// Streams transfer bytes in both directions. When a stream has ended, the remaining bytes can be read and writes
// fail.
func TestStreams(t *testing.T) {
	p := connect(t, nil)
	first, firstCaller := p.open(t)
	second, secondCaller := p.open(t)
	write(t, first, "one")
	write(t, second, "two")
	write(t, secondCaller, "stop")
	read(t, secondCaller, "two")
	read(t, firstCaller, "one")
	read(t, second, "stop")
	write(t, first, "last")
	if err := first.Close(); err != nil {
		t.Error(err)
	}
	read(t, firstCaller, "last")
	if n, err := firstCaller.Read(make([]byte, 1)); n != 0 || !errors.Is(err, io.EOF) {
		t.Errorf("read at the end: %d, %v, want EOF", n, err)
	}
	if _, err := firstCaller.Write([]byte("x")); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("write after the end: %v, want ErrClosedPipe", err)
	}
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read from a closed stream: %v, want ErrClosed", err)
	}
	firstCaller.Close()
	write(t, second, "more")
	read(t, secondCaller, "more")
}

// A stream with a slow reader buffers at most one window of bytes and delays no other stream.
func TestSlowReader(t *testing.T) {
	p := connect(t, nil)
	slow, slowCaller := p.open(t)
	quick, quickCaller := p.open(t)
	all := bytes.Repeat([]byte("0123456789"), 100<<10)
	if err := slow.SetWriteDeadline(time.Now().Add(50 * time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	n, err := slow.Write(all)
	if n != window || !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%d bytes to a slow reader, %v, want %d and the deadline", n, err, window)
	}
	write(t, quick, "quick")
	read(t, quickCaller, "quick")
	_ = slow.SetWriteDeadline(time.Time{})
	done := make(chan error, 1)
	go func() {
		_, err := slow.Write(all[n:])
		done <- err
		slow.Close()
	}()
	got, err := io.ReadAll(slowCaller)
	if err != nil || !bytes.Equal(got, all) {
		t.Errorf("%d bytes read, %v, want %d", len(got), err, len(all))
	}
	if err := <-done; err != nil {
		t.Error(err)
	}
}

// A read returns at its deadline. Bytes that arrive later can be read after that.
func TestReadDeadline(t *testing.T) {
	p := connect(t, nil)
	worker, caller := p.open(t)
	_ = caller.SetDeadline(time.Now().Add(10 * time.Millisecond))
	if _, err := caller.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("%v, want the deadline", err)
	}
	write(t, worker, "late")
	if !poll.Wait(func() bool {
		p.accepts.mu.Lock()
		defer p.accepts.mu.Unlock()
		return caller.(*stream).in.Len() > 0
	}) {
		t.Fatal("nothing came")
	}
	read(t, caller, "late")
	_ = caller.SetReadDeadline(time.Time{})
	go func() { _ = caller.SetReadDeadline(time.Unix(1, 0)) }()
	if _, err := caller.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a deadline that is set during a read: %v, want the deadline", err)
	}
}

// When the connection ends, its streams end and blocked reads and writes return.
func TestConnectionEnds(t *testing.T) {
	p := connect(t, nil)
	reading, _ := p.open(t)
	writing, _ := p.open(t)
	var all sync.WaitGroup
	all.Go(func() {
		if _, err := reading.Read(make([]byte, 1)); err == nil {
			t.Error("a read ended well, want an error")
		}
	})
	all.Go(func() {
		if _, err := writing.Write(make([]byte, 2*window)); err == nil {
			t.Error("a write ended well, want an error")
		}
	})
	p.accepts.conn.Close()
	all.Wait()
	if _, err := p.opens.Open(); err == nil {
		t.Error("a stream was opened on a connection that has ended, want an error")
	}
}

// CloseIdle closes an idle connection immediately, and a busy connection after its last stream.
func TestCloseIdle(t *testing.T) {
	p := connect(t, nil)
	worker, caller := p.open(t)
	p.opens.CloseIdle()
	write(t, worker, "flows")
	read(t, caller, "flows")
	caller.Close()
	if !poll.Wait(func() bool { return p.ended.Load() == 2 }) {
		t.Error("the connection is open after its last stream")
	}
	idle := connect(t, nil)
	idle.accepts.CloseIdle()
	if !poll.Wait(func() bool { return idle.ended.Load() == 2 }) {
		t.Error("an idle connection is open")
	}
}

// gate is a connection that blocks writes until open is closed.
type gate struct {
	net.Conn
	open   chan struct{}
	writes atomic.Int32
}

func (g *gate) Write(b []byte) (int, error) {
	g.writes.Add(1)
	<-g.open
	return g.Conn.Write(b)
}

// All pending bytes of the connection are sent in one write.
func TestOneWrite(t *testing.T) {
	g := &gate{open: make(chan struct{})}
	p := connect(t, func(c net.Conn) net.Conn { g.Conn = c; return g })
	var all []net.Conn
	for range 100 {
		s, err := p.opens.Open()
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	for i, s := range all {
		write(t, s, fmt.Sprintf("%03d", i))
	}
	close(g.open)
	for range all {
		s := <-p.accepted
		read(t, s, fmt.Sprintf("%03d", s.(*stream).id-1))
	}
	if n := g.writes.Load(); n > 3 {
		t.Errorf("%d writes, want at most 3", n)
	}
}

// readFrames never panics, and bytes that are not frames end the connection.
func FuzzFrames(f *testing.F) {
	frame := func(id uint32, kind byte, length int, b string) []byte {
		c := &Conn{ready: make(chan struct{}, 1)}
		c.addFrame(id, kind, length, []byte(b))
		return c.out
	}
	f.Add(append(frame(1, opened, 0, ""), frame(1, data, 2, "ab")...))
	f.Add(append(frame(1, opened, 0, ""), frame(1, closed, 0, "")...))
	f.Add(append(frame(1, opened, 0, ""), frame(1, credit, 1<<24-1, "")...))
	f.Add(frame(1, 9, 0, ""))
	f.Add(frame(7, data, 1<<24-1, "x"))
	f.Fuzz(func(t *testing.T, b []byte) {
		c := &Conn{accept: func(net.Conn) {}, ready: make(chan struct{}, 1), streams: make(map[uint32]*stream)}
		if err := c.readFrames(bufio.NewReaderSize(bytes.NewReader(b), window)); err == nil {
			t.Error("the connection has not ended")
		}
		for _, s := range c.streams {
			if s.in.Len() > window || s.credit > window {
				t.Errorf("%d bytes unread and credit for %d, want at most %d", s.in.Len(), s.credit, window)
			}
		}
	})
}

// refusal is a reader that returns the error reason when sent is closed.
type refusal struct {
	sent   chan struct{}
	reason error
}

func (r *refusal) Read([]byte) (int, error) { <-r.sent; return 0, r.reason }

// unwritable is a connection with writes that always fail.
type unwritable struct{ net.Conn }

func (unwritable) Write([]byte) (int, error)       { return 0, io.ErrClosedPipe }
func (unwritable) SetReadDeadline(time.Time) error { return nil }
func (unwritable) Close() error                    { return nil }

// A reader gets the reason for which the connection has ended, even after a failed write and after Close of the
// stream.
func TestReasonStays(t *testing.T) {
	ended, from := make(chan struct{}), &refusal{make(chan struct{}), errors.New("refused")}
	c := New(unwritable{}, from, nil, func() { close(ended) })
	s, err := c.Open()
	if err != nil {
		t.Fatal(err)
	}
	poll.Until(t, "the write has failed", func() bool {
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.unwritten != nil
	})
	close(from.sent)
	<-ended
	s.Close()
	if _, err := s.Read(make([]byte, 1)); !errors.Is(err, from.reason) {
		t.Errorf("%v, want %v", err, from.reason)
	}
}
