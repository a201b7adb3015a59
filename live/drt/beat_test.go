package drt_test

import (
	"encoding/json"
	"errors"
	"net"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/stack"
	"github.com/replay-llm/replay/live/fault"
)

// A caller waits for a silent worker while heartbeats arrive. The caller drops a worker without heartbeats, even if
// no limit between items is set.
func TestHeartbeat(t *testing.T) {
	t.Parallel()
	_, config := servers(t, stack.Options{})
	config.Lease = 2 * time.Second
	p := spawn(t, config, drt.Reregister)
	config.Heartbeat = 300 * time.Millisecond // 1.35 s without a frame end the call
	rt := join(t, config)
	serve(t, rt, "quiet", counter, drt.ServeOptions{})
	client(t, rt, "generate", 1)

	quiet := client(t, rt, "quiet", 1)
	rc := cancel.New("")
	next := open(t, quiet, rc)
	limit := config.Inactivity
	for _, own := range []struct {
		items time.Duration
		want  string
	}{{limit, "no sign of life for 1.35s"}, {400 * time.Millisecond, "nothing came for 400ms"}} {
		config.Inactivity = own.items
		c := client(t, join(t, config), "generate", 1)
		s, err := c.Generate(limited(t), cancel.New(""), &drt.Request{Payload: json.RawMessage(`{"n":100000,"slow":true}`)}, drt.Direct(p.id))
		if err != nil {
			t.Fatal(err)
		}
		more, stop := pull(s)
		if _, err, ok := more(); err != nil || !ok {
			t.Fatal(err)
		}
		p.signal(t, syscall.SIGSTOP)
		var failed error
		for ok := true; ok && failed == nil; {
			_, failed, ok = more()
		}
		if !errors.Is(failed, fault.ResponseTimeout) || !strings.Contains(failed.Error(), own.want) {
			t.Errorf("limit %v: %v, want a ResponseTimeout with %q", own.items, failed, own.want)
		}
		stop()
		p.signal(t, syscall.SIGCONT)
	}
	finish(t, rc, next)

	// A heartbeat does not count as an item.
	config.Inactivity, config.Heartbeat = time.Second, 50*time.Millisecond
	next = open(t, client(t, join(t, config), "quiet", 1), cancel.New(""))
	if _, err, _ := next(); !errors.Is(err, fault.ResponseTimeout) || !strings.Contains(err.Error(), "nothing came for 1s") {
		t.Errorf("a worker that lives and says nothing: %v, want a ResponseTimeout", err)
	}
}

// Data that arrived before the timeout is read after it, for example after a pause of the process.
func TestPatientConn(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	far, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	near, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer near.Close()
	conn, b := drt.PatientConn(near), make([]byte, 10)
	if _, err := far.Write([]byte("late")); err != nil {
		t.Fatal(err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(-time.Second))
	if n, err := conn.Read(b); err != nil || string(b[:n]) != "late" {
		t.Errorf("read %q, %v", b[:n], err)
	}
	_ = conn.SetReadDeadline(time.Now().Add(-time.Second))
	if n, err := conn.Read(b); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("read %q, %v, want a deadline: nothing came", b[:n], err)
	}
}
