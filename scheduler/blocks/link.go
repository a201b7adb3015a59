package blocks

import "github.com/replay-llm/replay/sim"

// link moves bytes in one direction. The transfers in progress share the bandwidth of a link evenly.
type link struct {
	bytesPerMS float64 // 0: transfers take no time
	transfers  []transfer
	last       sim.Time // the instant at which remaining was computed
}

// transferID identifies a transfer on both links of a Host.
type transferID int64

type transfer struct {
	id        transferID
	remaining float64 // bytes
}

// linkTolerance is the maximum delay, in ms, after which a transfer still counts as finished at the end of a pass,
// because that end is rounded.
const linkTolerance sim.Time = 1e-9

// newLink returns an idle link of n * 10^9 bytes per second. With n <= 0, transfers take no time.
func newLink(gbPerSecond float64) link {
	return link{bytesPerMS: max(gbPerSecond, 0) * 1e6}
}

func (l *link) isBusy() bool { return len(l.transfers) > 0 }

// start begins a transfer at now. The caller has called advance for now.
func (l *link) start(now sim.Time, id transferID, bytes float64) {
	l.last = max(now, l.last)
	if l.bytesPerMS == 0 {
		bytes = 0
	}
	l.transfers = append(l.transfers, transfer{id, bytes})
}

// advance moves the link to now and appends the finished transfers to done, in order of their ends.
func (l *link) advance(now sim.Time, done []transferID) []transferID {
	if now < l.last {
		return done
	}
	for l.isBusy() {
		i, left := l.first()
		if l.last+left > now+linkTolerance {
			l.move(now - l.last)
			break
		}
		l.move(left)
		l.last += left
		done = append(done, l.transfers[i].id)
		n := len(l.transfers) - 1
		l.transfers[i] = l.transfers[n]
		l.transfers = l.transfers[:n]
	}
	l.last = now
	return done
}

// next returns when the first of the transfers in progress finishes if no other starts. The link must be busy.
func (l *link) next() sim.Time {
	_, left := l.first()
	return l.last + left
}

// first returns the transfer that finishes first and its remaining time.
func (l *link) first() (i int, left sim.Time) {
	for k := range l.transfers {
		if l.transfers[k].remaining < l.transfers[i].remaining {
			i = k
		}
	}
	if l.bytesPerMS == 0 {
		return i, 0
	}
	return i, sim.Time(l.transfers[i].remaining / l.share())
}

// share returns the bandwidth of each transfer.
func (l *link) share() float64 { return l.bytesPerMS / float64(len(l.transfers)) }

// move advances all transfers by span, in ms.
func (l *link) move(span sim.Time) {
	if l.bytesPerMS == 0 || span <= 0 {
		return
	}
	moved := float64(float64(span) * l.share())
	for i := range l.transfers {
		t := &l.transfers[i]
		t.remaining = max(t.remaining-moved, 0)
	}
}
