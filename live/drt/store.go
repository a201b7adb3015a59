package drt

import (
	"errors"
	"time"
)

// errLeaseGone means that a lease has expired or was revoked.
var errLeaseGone = errors.New("the lease is gone")

// errOther means that a key belongs to another endpoint with the same prefix.
var errOther = errors.New("another endpoint's")

// errCallsOnly means that a runtime that only calls is to serve something.
var errCallsOnly = errors.New("this runtime only calls (CallsOnly): it has no lease to serve under")

// pair is a key and its value.
type pair struct {
	key   string
	value []byte
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

// serving is what a plane must know to serve an instance.
type serving struct {
	name     Name
	id       uint64
	layouts  []layout // that define its subjects; none: shared is its subject
	subjects []string
	shared   bool // other workers serve the same subject
	take     func(message)
}
