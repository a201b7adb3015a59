package kvevents

import (
	"fmt"
	"time"
)

// Limits bound the events of one publisher. A publisher that exceeds one is cut off: it is not followed any
// more. The zero value of each field means its default.
type Limits struct {
	// Blocks is how many blocks it may have cached; default 1,048,576.
	Blocks int
	// Rate is how many blocks a second it may store and remove, and events it may tell, ten
	// seconds' worth of them at once; default 500,000.
	Rate int
}

// Bounds that no setting changes: names that are remembered of a publisher besides its
// blocks.
const (
	mostCaches = 1024 // ranks and memories it speaks of
	mostGroups = 4096 // groups of caches
)

func (l Limits) withDefaults() Limits {
	if l.Blocks <= 0 {
		l.Blocks = 1 << 20
	}
	if l.Rate <= 0 {
		l.Rate = 500_000
	}
	return l
}

// bytesOfBlock bounds the size of one block in an event, in bytes, with its tokens.
const bytesOfBlock = 512

// longestAnswer returns how many bytes an answer of a publisher may have.
func (l *Limits) longestAnswer() int { return min(maxAnswer, max(64<<20, l.Blocks*bytesOfBlock)) }

// LimitError reports what a publisher was cut off for.
type LimitError struct {
	Reason string // the label of its counter: blocks, rate, caches or answer
	Text   string
}

func (e *LimitError) Error() string { return e.Text }

// burst is the time over which a publisher may save up events.
const burst = 10 * time.Second

// allowance is the number of events that a publisher may still send now.
type allowance struct {
	left float64
	at   time.Time // of the last look
}

// spend takes n off, or returns a LimitError.
func (a *allowance) spend(n, rate int, now time.Time) error {
	most := float64(rate) * burst.Seconds()
	if a.at.IsZero() {
		a.left = most
	} else {
		a.left = min(most, a.left+now.Sub(a.at).Seconds()*float64(rate))
	}
	a.at = now
	if a.left -= float64(n); a.left < 0 {
		return &LimitError{"rate", fmt.Sprintf("it tells of more than %d blocks and events a second", rate)}
	}
	return nil
}

// sized is a sink that knows how much a publisher has told it.
type sized interface {
	// Size returns the number of blocks known.
	Size() int
}

// checkChanges returns a LimitError for changes above the limit of the publisher; replacing, instead of all earlier
// blocks.
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
	for c := range caches { // in any order: a set
		s.caches[c] = struct{}{}
	}
	if len(s.caches) > mostCaches || len(s.normal.kinds) > mostGroups {
		return &LimitError{"caches", fmt.Sprintf("it speaks of more than %d ranks and memories, or %d groups", mostCaches, mostGroups)}
	}
	known := 0
	if k, ok := s.options.Sink.(sized); ok && !replacing && stored > 0 {
		known = k.Size()
	}
	if known+stored > l.Blocks {
		return &LimitError{"blocks", fmt.Sprintf("it tells of more than %d blocks", l.Blocks)}
	}
	return s.allowance.spend(told, l.Rate, time.Now())
}

// cutOff ends the following of a publisher that tells too much.
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
