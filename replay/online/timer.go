package online

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/replay-llm/replay/sim"
)

// Timer lets one goroutine sleep until an instant of a clock, or until another
// goroutine wakes it.
//
// Go's own timers are up to a millisecond late when nothing else runs, which is
// a good part of a pass. On Linux a Timer is a timer of the kernel, read like a
// file.
type Timer struct {
	clock *Clock
	spin  bool // read the clock before the end
	woken atomic.Bool
	alarm alarm

	mu     sync.Mutex // between Wake and Close
	closed bool
}

// alarm is what a Timer sleeps on.
type alarm interface {
	// set makes a wait of now or later end after d, which is > 0.
	set(d time.Duration)
	// wait returns once the alarm goes off; now and then it returns too early.
	wait()
	close()
}

// newTimer returns a timer of the clock. A precise one spends the end of each
// sleep reading the clock, which takes a processor.
func newTimer(c *Clock, precise bool) *Timer {
	make := newAlarm
	if c.newAlarm != nil {
		make = c.newAlarm
	}
	return &Timer{clock: c, spin: precise, alarm: make()}
}

// Sleep returns once the clock shows at, or once Wake was called since the last
// Sleep returned. It reports whether it was woken.
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

// Wake ends the Sleep in progress, or the next one. On a closed timer it does
// nothing.
func (t *Timer) Wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return
	}
	t.woken.Store(true)
	t.alarm.set(1)
}

// Close frees what the timer holds. No goroutine may sleep on it any more.
func (t *Timer) Close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.closed {
		t.closed = true
		t.alarm.close()
	}
}

// sleeper is an alarm made of Go's timers.
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
	newAlarm func() alarm // of its timers; nil: the system's
}

// NewClock is a clock that starts now.
func NewClock() *Clock { return &Clock{start: time.Now()} }

// Now is the time on the clock.
func (c *Clock) Now() sim.Time { return sim.Time(time.Since(c.start).Nanoseconds()) / 1e6 }

// At is the time on the clock at an instant.
func (c *Clock) At(t time.Time) sim.Time { return sim.Time(t.Sub(c.start).Nanoseconds()) / 1e6 }

// timeUntil is how long it takes until the clock shows at.
func (c *Clock) timeUntil(at sim.Time) time.Duration {
	ms := min(float64(at-c.Now()), maxSleepMS)
	return time.Duration(math.Ceil(ms * 1e6)) // rounded up: after the sleep the clock shows at
}

// maxSleepMS bounds one sleep; a longer one is several sleeps.
const maxSleepMS = 1e9

// spin is how long before its end a sleep turns into reading the clock, for
// precision at any price. It is longer than a timer is late.
const spin = sim.Time(1.2)
