package drt

import (
	"context"
	"errors"
	"time"
)

// errLeaseGone means that a lease has expired or was revoked.
var errLeaseGone = errors.New("the lease is gone")

// errOther means that a key belongs to another endpoint, whose name begins alike.
var errOther = errors.New("another endpoint's")

// store is keys under leases, and who looks at them.
type store interface {
	// grant makes a lease. It may last longer than was asked for.
	grantLease(ctx context.Context, ttl time.Duration) (id uint64, granted time.Duration, err error)
	// renew starts the lease's time anew. The error is errLeaseGone, or one that
	// says nothing about the lease.
	renewLease(ctx context.Context, id uint64) (time.Duration, error)
	// revoke ends a lease and removes its keys.
	revokeLease(ctx context.Context, id uint64) error
	// create writes pairs under a lease, all or none. A key that is there is an
	// error, unless it is of the same lease.
	createKeys(ctx context.Context, lease uint64, pairs []pair) error
	// remove removes keys, if they are there.
	removeKeys(ctx context.Context, keys []string) error
	// watch shows what is under prefix, then every change until ctx ends. It
	// returns when see was called for the first time, which may be with nothing.
	watchPrefix(ctx context.Context, prefix string, see func([]change)) error
	// close ends the connection.
	closeStore() error
}

// pair is a key and its value.
type pair struct {
	key   string
	value []byte
}

// change is a key that was written or removed.
type change struct {
	pair
	gone bool // and no value
}

// message is a request on its way.
type message struct {
	headers map[string]string
	frame   []byte
	at      time.Time // when it was received
	// reply answers it, once: nil acknowledges.
	reply func(*refusal)
}

// refusal is why a worker does not take a request.
type refusal struct {
	code string // "400" or "503"
	text string
}

// plane carries requests from callers to workers.
type plane interface {
	// serve takes requests for instance i, in goroutines of their own, until
	// stop is called.
	serveInstance(i serving) (stop func(), err error)
	// send delivers a request; it returns when the worker has acknowledged it.
	// Errors are typed: CannotConnect, InvalidArgument, ConnectionTimeout.
	sendRequest(ctx context.Context, to Instance, m message) error
	// limit is the largest frame that goes to an instance, in bytes; 0: none but
	// the wire's.
	frameLimit(to Instance) int
	closePlane()
}

// serving is what a plane has to know to serve an instance.
type serving struct {
	name     Name
	id       uint64
	layouts  []layout // whose subjects it has; none: shared is its subject
	subjects []string
	shared   bool // others serve the same subject
	take     func(message)
}

// handOver hands a request over that has just been received. The answer comes through the channel.
func (s *serving) handOver(m message) <-chan *refusal {
	answer := make(chan *refusal, 1)
	m.at = time.Now()
	m.reply = func(r *refusal) { answer <- r }
	go s.take(m)
	return answer
}
