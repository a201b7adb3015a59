package online

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/sim"
)

// Timer lets one goroutine sleep until an instant of a clock, or until another goroutine wakes it.
//
// Go's timers are up to one millisecond late when the program is otherwise idle, which is a large part of a pass. On
// Linux, a Timer is a kernel timer that is read like a file.
type Timer struct {
	clock *Clock
	spin  bool // poll the clock before the end
	woken atomic.Bool
	alarm alarm

	mu     sync.Mutex // for Wake and Close
	closed bool
}

// alarm is the mechanism on which a Timer sleeps.
type alarm interface {
	// set makes a current or later wait end after d, which must be > 0.
	set(d time.Duration)
	// wait returns when the alarm ends. wait may also return too early.
	wait()
	close()
}

// newTimer returns a timer of the clock. A precise timer polls the clock at the end of each sleep, which uses one
// processor.
func newTimer(c *Clock, precise bool) *Timer {
	make := newAlarm
	if c.newAlarm != nil {
		make = c.newAlarm
	}
	return &Timer{clock: c, spin: precise, alarm: make()}
}

// Sleep returns when the clock reaches at, or after a call of Wake since the previous Sleep returned. Sleep reports
// whether Wake ended the sleep.
func (t *Timer) Sleep(at sim.Time) (woken bool) {
	end := at
	if t.spin {
		end -= spin
	}
	for {
		if t.woken.Swap(false) {
			return true
		}
		d := t.clock.timeUntil(end)
		if d <= 0 {
			break
		}
		t.alarm.set(d)
		if t.woken.Load() {
			continue
		}
		t.alarm.wait()
	}
	for t.clock.Now() < at {
		if t.woken.Swap(false) {
			return true
		}
		runtime.Gosched()
	}
	return false
}

// Wake ends the Sleep in progress, or the next Sleep. Wake has no effect on a closed timer.
func (t *Timer) Wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.woken.Store(true)
	t.alarm.set(1)
}

// Close releases the resources of the timer. No goroutine may sleep on a closed timer.
func (t *Timer) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		t.alarm.close()
	}
}

// sleeper is an alarm with a timer of Go.
type sleeper struct{ timer *time.Timer }

func newSleeper() alarm {
	t := time.NewTimer(time.Hour)
	t.Stop()
	return sleeper{t}
}

func (s sleeper) set(d time.Duration) { s.timer.Reset(d) }
func (s sleeper) wait()               { <-s.timer.C }
func (s sleeper) close()              { s.timer.Stop() }

// Clock is the real clock of a run, in ms since its start.
type Clock struct {
	start    time.Time
	newAlarm func() alarm // makes the alarms of timers; nil: the default
}

// NewClock returns a clock that starts now.
func NewClock() *Clock { return &Clock{start: time.Now()} }

// Now returns the time on the clock.
func (c *Clock) Now() sim.Time { return sim.Time(time.Since(c.start).Nanoseconds()) / 1e6 }

// At returns the time on the clock at t.
func (c *Clock) At(t time.Time) sim.Time { return sim.Time(t.Sub(c.start).Nanoseconds()) / 1e6 }

// timeUntil returns the time until the clock reaches at.
func (c *Clock) timeUntil(at sim.Time) time.Duration {
	ms := min(float64(at-c.Now()), maxSleepMS)
	return time.Duration(math.Ceil(ms * 1e6)) // rounded up, so that the clock has reached at after the sleep
}

// maxSleepMS is the maximum duration of one sleep in ms. A longer sleep is divided.
const maxSleepMS = 1e9

// spin is the time in ms before its end at which a precise sleep begins to poll the clock. spin is longer than the
// delay of a timer.
const spin = sim.Time(1.2)
