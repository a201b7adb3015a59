package drt

import (
	"cmp"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"github.com/replay-llm/replay/internal/wire"
	"github.com/replay-llm/replay/live/fault"
)

// beatHeader is the header of a request by which a caller asks for heartbeats: an empty frame after that many
// milliseconds without an item. Other implementations of workers ignore it.
const beatHeader = "x-replay-heartbeat-ms"

// beatAsked returns how often the caller of a request wants a heartbeat; 0: never.
func beatAsked(headers map[string]string) time.Duration {
	ms, err := strconv.Atoi(headers[beatHeader])
	if err != nil || ms <= 0 {
		return 0
	}
	return min(max(time.Duration(ms)*time.Millisecond, 10*time.Millisecond), time.Minute)
}

// vigil is how long a caller waits for a frame.
type vigil struct {
	conn  net.Conn
	items time.Duration // for one that says something; 0: any time
	life  time.Duration // for any, heartbeats too; 0: any time
	limit time.Time     // that the connection has
	began time.Time     // of the wait for a frame that says something
}

// beginWait sets the limit of the wait for a frame that says something.
func (v *vigil) beginWait() {
	if v.items > 0 || v.life > 0 {
		v.began = time.Now()
		v.setLimit(v.began)
	}
}

// extendWait sets it anew after a heartbeat, and reports whether there is time left.
func (v *vigil) extendWait() bool {
	now := time.Now()
	if v.items > 0 && now.Sub(v.began) >= v.items {
		return false
	}
	if v.items > 0 || v.life > 0 {
		v.setLimit(now)
	}
	return true
}

// setLimit sets the connection's limit. To set one takes time: one that is nearly as late as it should be stays.
func (v *vigil) setLimit(now time.Time) {
	var limit time.Time
	if v.life > 0 {
		limit = now.Add(v.life)
	}
	if end := v.began.Add(v.items); v.items > 0 && (limit.IsZero() || end.Before(limit)) {
		v.limit = end
		_ = v.conn.SetReadDeadline(end)
		return
	}
	if limit.Sub(v.limit) > v.life/8 || v.limit.After(limit) {
		v.limit = limit
		_ = v.conn.SetReadDeadline(limit)
	}
}

// silence returns what was waited for in vain.
func (v *vigil) silence() error {
	if v.items > 0 && time.Since(v.began) >= v.items {
		return fmt.Errorf("nothing came for %v", v.items)
	}
	return fmt.Errorf("%w for %v", errSilent, cmp.Or(v.life, v.items))
}

// readFrame reads a frame that says something.
func (s *Stream) readFrame() (wire.Frame, error) {
	s.wait.beginWait()
	for {
		f, err := s.from.Read()
		if err != nil {
			return f, s.readError(err)
		}
		if f.Kind() != wire.Empty {
			return f, nil
		}
		if !s.wait.extendWait() {
			return f, s.breakOff(fault.ResponseTimeout, s.wait.silence())
		}
	}
}

// readError returns the error that a failed read means.
func (s *Stream) readError(err error) error {
	if errors.Is(err, os.ErrDeadlineExceeded) {
		return s.breakOff(fault.ResponseTimeout, s.wait.silence())
	}
	var bad *wire.Error
	if errors.As(err, &bad) && bad.Reason != "truncated" {
		return s.breakOff(fault.Disconnected, err)
	}
	return fault.New(fault.Disconnected, "%v: the stream of instance %s broke: %w", s.place.name, hexID(s.Instance), err)
}

// lastLook is how long a connection is read once more after its time is over.
const lastLook = 100 * time.Millisecond

// patientConn reads once more after its timeout: a process that was paused finds the data that arrived meanwhile.
type patientConn struct{ net.Conn }

func (c patientConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		_ = c.SetReadDeadline(time.Now().Add(lastLook))
		return c.Conn.Read(b)
	}
	return n, err
}
