package drt

import (
	"context"
	"log/slog"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"
)

// etcdLink follows whether etcd answers, and says when what is known of it is to be read anew: an
// etcd that was away may have come back with other data, or without any, and a watch does not notice.
type etcdLink struct {
	client *clientv3.Client
	log    *slog.Logger

	mu      sync.Mutex
	heard   time.Time // when etcd answered last
	away    bool      // it did not, when it was asked last
	since   time.Time // when it was last heard of before it was away
	told    time.Time // when it was last logged that it is away
	warned  bool      // of this time that it is away
	turn    int       // how often the connection was made again
	renewed chan struct{}
	members map[*linkMember]struct{}
}

// linkMember is one who reads, and again at every turn.
type linkMember struct {
	link    *etcdLink
	listing int // the turn of the reading that has begun
	listed  int // the turn of the last one that is done
}

// The times of a link.
const (
	askEvery  = time.Second             // etcd is asked whether it is there
	askLimit  = 2500 * time.Millisecond // for its answer
	toldEvery = 30 * time.Second        // it is logged that it is away
)

func newLink(client *clientv3.Client, log *slog.Logger) *etcdLink {
	return &etcdLink{client: client, log: log, heard: time.Now(), renewed: make(chan struct{}), members: make(map[*linkMember]struct{})}
}

// follow asks etcd every second, and at once when the connection was lost, until ctx ends. renewed is
// called when the connection was made again.
func (l *etcdLink) follow(ctx context.Context, renewed func()) {
	var wg sync.WaitGroup
	defer wg.Wait()
	lost := make(chan struct{}, 1)
	wg.Go(func() { l.noteLosses(ctx, lost) })
	broken, revision, cluster := false, int64(0), uint64(0)
	for {
		select {
		case <-lost:
			broken = true
		case <-time.After(askEvery):
		case <-ctx.Done():
			return
		}
		asked, release := context.WithTimeout(ctx, askLimit)
		r, err := l.client.Get(asked, "v1/instances/", clientv3.WithCountOnly(), clientv3.WithLimit(1))
		release()
		if err != nil {
			if ctx.Err() == nil {
				l.noteSilence(err)
			}
			continue
		}
		select { // it may have been lost on the way
		case <-lost:
			broken = true
		default:
		}
		again := broken || r.Header.Revision < revision || cluster != 0 && r.Header.ClusterId != cluster
		broken, revision, cluster = false, r.Header.Revision, r.Header.ClusterId
		if l.noteAnswer(again); again {
			renewed()
		}
	}
}

// noteLosses notes in lost when a connection that was there is not.
func (l *etcdLink) noteLosses(ctx context.Context, lost chan<- struct{}) {
	conn := l.client.ActiveConnection()
	for state := conn.GetState(); ; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			return
		}
		if state == connectivity.Ready {
			select {
			case lost <- struct{}{}:
			default:
			}
		}
	}
}

func (l *etcdLink) noteSilence(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.isStale() {
		l.since = l.heard
	}
	l.away = true
	if time.Since(l.told) >= toldEvery {
		l.told, l.warned = time.Now(), true
		l.log.Warn("etcd does not answer; going on with what is known", "since", l.since.Format(time.RFC3339), "reason", err)
	}
}

// noteAnswer notes that etcd answered. again says that all is to be read anew.
func (l *etcdLink) noteAnswer(again bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.away && l.warned {
		l.warned = false
		l.log.Warn("etcd answers again", "after", time.Since(l.since).Round(100*time.Millisecond).String())
	}
	if again && !l.isStale() {
		l.since = l.heard
	}
	l.away, l.heard = false, time.Now()
	if again {
		l.turn++
		close(l.renewed)
		l.renewed = make(chan struct{})
	}
}

// isAnswering reports whether etcd answered when it was asked last.
func (l *etcdLink) isAnswering() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.away
}

// staleSince returns since when what is known is not up to date, or the zero time.
func (l *etcdLink) staleSince() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.isStale() {
		return l.since
	}
	return time.Time{}
}

// isStale reports whether what is known is not up to date. l.mu is held.
func (l *etcdLink) isStale() bool {
	for m := range l.members {
		if m.listed < l.turn {
			return true
		}
	}
	return l.away
}

// join adds somebody who is about to read.
func (l *etcdLink) join() *linkMember {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := &linkMember{link: l, listing: l.turn, listed: l.turn}
	l.members[m] = struct{}{}
	return m
}

// leave ends that.
func (l *etcdLink) leave(m *linkMember) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.members, m)
}

// noteListing notes that m begins to read.
func (m *linkMember) noteListing() {
	m.link.mu.Lock()
	defer m.link.mu.Unlock()
	m.listing = m.link.turn
}

// noteListed notes that m has read what was there.
func (m *linkMember) noteListed() {
	m.link.mu.Lock()
	defer m.link.mu.Unlock()
	m.listed = m.listing
}

// relist returns a channel that is closed when m is to read again.
func (m *linkMember) relist() <-chan struct{} {
	m.link.mu.Lock()
	defer m.link.mu.Unlock()
	if m.listed < m.link.turn {
		now := make(chan struct{})
		close(now)
		return now
	}
	return m.link.renewed
}
