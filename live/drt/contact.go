package drt

import (
	"context"
	"log/slog"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/connectivity"

	"github.com/replay-llm/replay/internal/bell"
)

// contact checks whether etcd answers, and reports when its data must be read again. After an outage, etcd may have
// different data or no data, and a watch does not detect this.
type contact struct {
	client *clientv3.Client
	log    *slog.Logger

	mu      sync.Mutex
	heard   time.Time // time of the last answer of etcd
	away    bool      // etcd did not answer the last request
	since   time.Time // begin of the present staleness: the last answer before it
	told    time.Time // time of the last log line about the outage
	warned  bool      // the present outage was logged
	turn    int       // number of reconnections
	renewed chan struct{}
	members map[*contactReader]struct{}
}

// contactReader is a reader of etcd data, which reads again after each reconnection.
type contactReader struct {
	contact *contact
	listing int // turn in which the latest read began
	listed  int // turn in which the latest complete read began
}

// Intervals and limits of contact.
const (
	contactEvery = time.Second             // interval between requests to etcd
	contactLimit = 2500 * time.Millisecond // limit for the answer
	logEvery     = 30 * time.Second        // interval between log lines about an outage
)

func newContact(client *clientv3.Client, log *slog.Logger) *contact {
	return &contact{client: client, log: log, heard: time.Now(), renewed: make(chan struct{}), members: make(map[*contactReader]struct{})}
}

// follow asks etcd every second, and at once after a lost connection, until ctx ends. follow calls renewed after a
// reconnection.
func (c *contact) follow(ctx context.Context, renewed func()) {
	var wg sync.WaitGroup
	defer wg.Wait()
	lost := bell.New()
	wg.Go(func() { c.noteLosses(ctx, lost) })
	broken, revision, cluster := false, int64(0), uint64(0)
	for {
		select {
		case <-lost:
			broken = true
		case <-time.After(contactEvery):
		case <-ctx.Done():
			return
		}
		asked, release := context.WithTimeout(ctx, contactLimit)
		r, err := c.client.Get(asked, instancesKey, clientv3.WithCountOnly(), clientv3.WithLimit(1))
		release()
		if err != nil {
			if ctx.Err() == nil {
				c.noteSilence(err)
			}
			continue
		}
		select { // the connection may have been lost during the request
		case <-lost:
			broken = true
		default:
		}
		again := broken || r.Header.Revision < revision || cluster != 0 && r.Header.ClusterId != cluster
		broken, revision, cluster = false, r.Header.Revision, r.Header.ClusterId
		if c.noteAnswer(again); again {
			renewed()
		}
	}
}

// noteLosses rings lost whenever a ready connection is lost.
func (c *contact) noteLosses(ctx context.Context, lost bell.Bell) {
	conn := c.client.ActiveConnection()
	for state := conn.GetState(); ; state = conn.GetState() {
		if !conn.WaitForStateChange(ctx, state) {
			return
		}
		if state == connectivity.Ready {
			lost.Ring()
		}
	}
}

func (c *contact) noteSilence(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.isStale() {
		c.since = c.heard
	}
	c.away = true
	if time.Since(c.told) >= logEvery {
		c.told, c.warned = time.Now(), true
		c.log.Warn("etcd does not answer; continuing with the last known instances and cards", "since", c.since.Format(time.RFC3339), "reason", err)
	}
}

// noteAnswer records that etcd answered. again means that all data must be read again.
func (c *contact) noteAnswer(again bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.away && c.warned {
		c.warned = false
		c.log.Warn("etcd answers again", "after", time.Since(c.since).Round(100*time.Millisecond).String())
	}
	if again && !c.isStale() {
		c.since = c.heard
	}
	c.away, c.heard = false, time.Now()
	if again {
		c.turn++
		close(c.renewed)
		c.renewed = make(chan struct{})
	}
}

// isAnswering reports whether etcd answered the last request.
func (c *contact) isAnswering() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return !c.away
}

// staleSince returns since when the data of etcd may be out of date, or zero if it is up to date.
func (c *contact) staleSince() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isStale() {
		return c.since
	}
	return time.Time{}
}

// isStale reports whether the data of etcd may be out of date. c.mu is held.
func (c *contact) isStale() bool {
	for m := range c.members {
		if m.listed < c.turn {
			return true
		}
	}
	return c.away
}

// join adds a reader that is about to read.
func (c *contact) join() *contactReader {
	c.mu.Lock()
	defer c.mu.Unlock()
	m := &contactReader{contact: c, listing: c.turn, listed: c.turn}
	c.members[m] = struct{}{}
	return m
}

// leave removes a reader.
func (c *contact) leave(m *contactReader) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.members, m)
}

// noteListing records that m begins to read.
func (m *contactReader) noteListing() {
	m.contact.mu.Lock()
	defer m.contact.mu.Unlock()
	m.listing = m.contact.turn
}

// noteListed records that m has read the existing keys.
func (m *contactReader) noteListed() {
	m.contact.mu.Lock()
	defer m.contact.mu.Unlock()
	m.listed = m.listing
}

// relist returns a channel that is closed when m must read again.
func (m *contactReader) relist() <-chan struct{} {
	m.contact.mu.Lock()
	defer m.contact.mu.Unlock()
	if m.listed < m.contact.turn {
		now := make(chan struct{})
		close(now)
		return now
	}
	return m.contact.renewed
}
