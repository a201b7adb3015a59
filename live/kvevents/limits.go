package kvevents

import (
	"fmt"
	"time"
)

// Limits are limits for the events of one publisher. A publisher that exceeds a limit is no longer followed. The zero
// value of each field means its default.
type Limits struct {
	// Blocks is the maximum number of cached blocks; default 1,048,576.
	Blocks int
	// Rate is the maximum number of events and of stored and removed blocks per second; default 500,000. A burst may
	// use the rate of up to ten seconds.
	Rate int
}

// mostCaches is the maximum number of ranks and memories in the events of a publisher. mostCaches limits memory, in
// addition to the limit of blocks.
const mostCaches = 1024

func (l Limits) withDefaults() Limits {
	if l.Blocks <= 0 {
		l.Blocks = 1 << 20
	}
	if l.Rate <= 0 {
		l.Rate = 500_000
	}
	return l
}

// bytesOfBlock is the maximum size of one block in an event with its tokens, in bytes.
const bytesOfBlock = 512

// longestAnswer returns the maximum size of an answer, in bytes.
func (l *Limits) longestAnswer() int { return min(maxAnswer, max(64<<20, l.Blocks*bytesOfBlock)) }

// LimitError reports the limit that a publisher has exceeded.
type LimitError struct {
	Reason string // label of the counter: blocks, rate, caches or answer
	Text   string
}

func (e *LimitError) Error() string { return e.Text }

// burst is the time over which a publisher may accumulate unused rate.
const burst = 10 * time.Second

// allowance is the number of events that a publisher may send now.
type allowance struct {
	left float64
	at   time.Time // time of the last update
}

// spend subtracts n, or returns a LimitError.
func (a *allowance) spend(n, rate int, now time.Time) error {
	most := float64(rate) * burst.Seconds()
	if a.at.IsZero() {
		a.left = most
	} else {
		a.left = min(most, a.left+now.Sub(a.at).Seconds()*float64(rate))
	}
	a.at = now
	if a.left -= float64(n); a.left < 0 {
		return &LimitError{"rate", fmt.Sprintf("its events have more than %d blocks and events a second", rate)}
	}
	return nil
}

// sized is a sink that reports the number of blocks of a publisher.
type sized interface {
	// Size returns the number of known blocks.
	Size() int
}

// checkChanges returns a LimitError if changes exceed a limit of the publisher. replacing means that the changes
// replace all earlier blocks.
func (s *Subscriber) checkChanges(changes []Change, replacing bool) error {
	l := &s.options.Limits
	stored, told := 0, len(changes)+1
	caches := make(map[cache]struct{}, 1)
	for i := range changes {
		e := &changes[i].Event
		stored += len(e.Stored)
		told += len(e.Stored) + len(e.Removed)
		caches[cache{e.Rank, e.Tier}] = struct{}{}
	}
	for c := range caches { // the order is irrelevant for a set
		s.caches[c] = struct{}{}
	}
	if len(s.caches) > mostCaches {
		return &LimitError{"caches", fmt.Sprintf("its events have more than %d ranks and memories", mostCaches)}
	}
	known := 0
	if k, ok := s.options.Sink.(sized); ok && !replacing && stored > 0 {
		known = k.Size()
	}
	if known+stored > l.Blocks {
		return &LimitError{"blocks", fmt.Sprintf("its events have more than %d blocks", l.Blocks)}
	}
	return s.allowance.spend(told, l.Rate, time.Now())
}

// cutOff stops following a publisher that exceeded a limit, and removes its blocks.
func (s *Subscriber) cutOff(err error) {
	if s.limited != nil {
		return
	}
	s.limited = err
	s.cancel()
	if s.options.Sink != nil {
		s.options.Sink.Replace(nil)
	}
	s.options.Cut(err)
}
