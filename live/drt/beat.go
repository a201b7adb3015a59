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

// beatHeader is a request header with a number of milliseconds. After each such period without an item, the worker
// sends an empty frame as a heartbeat. Other implementations of workers ignore the header.
const beatHeader = "x-replay-heartbeat-ms"

// beatAsked returns the interval of heartbeats that the caller of a request wants; 0: no heartbeats.
func beatAsked(headers map[string]string) time.Duration {
	ms, err := strconv.Atoi(headers[beatHeader])
	if err != nil || ms <= 0 {
		return 0
	}
	return min(max(time.Duration(ms)*time.Millisecond, 10*time.Millisecond), time.Minute)
}

// vigil sets the read deadline of a caller that waits for frames.
type vigil struct {
	conn  net.Conn
	items time.Duration // wait for a frame that is not empty; 0: no limit
	life  time.Duration // wait for any frame, also a heartbeat; 0: no limit
	limit time.Time     // current read deadline of the connection
	began time.Time     // begin of the wait for a frame that is not empty
}

// beginWait sets the deadline for the next frame that is not empty.
func (v *vigil) beginWait() {
	if v.items > 0 || v.life > 0 {
		v.began = time.Now()
		v.setLimit(v.began)
	}
}

// extendWait sets the deadline again after a heartbeat. extendWait reports false if the time for an item is over.
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

// setLimit sets the read deadline. Setting a deadline takes time, so setLimit keeps a deadline that is almost late
// enough.
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

// silence returns the error of a timeout: no item, or no frame at all.
func (v *vigil) silence() error {
	if v.items > 0 && time.Since(v.began) >= v.items {
		return fmt.Errorf("nothing came for %v", v.items)
	}
	return fmt.Errorf("%w for %v", errSilent, cmp.Or(v.life, v.items))
}

// readFrame reads the next frame that is not empty.
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

// readError returns the typed error for a failed read.
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

// lastLook is the timeout of the second read after a read timeout.
const lastLook = 100 * time.Millisecond

// patientConn reads a second time after a timeout. A process that was paused thus finds the data that arrived during
// the pause.
type patientConn struct{ net.Conn }

func (c patientConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if n == 0 && errors.Is(err, os.ErrDeadlineExceeded) {
		_ = c.SetReadDeadline(time.Now().Add(lastLook))
		return c.Conn.Read(b)
	}
	return n, err
}
