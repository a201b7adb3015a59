package drt

import (
	"errors"
	"time"
)

// errLeaseGone means that a lease has expired or was revoked.
var errLeaseGone = errors.New("the lease is gone")

// errOther means that a key belongs to another endpoint with the same prefix.
var errOther = errors.New("another endpoint's")

// errCallsOnly means that a runtime with CallsOnly was asked to serve.
var errCallsOnly = errors.New("this runtime only calls (CallsOnly): it has no lease to serve under")

// pair is a key and its value.
type pair struct {
	key   string
	value []byte
}

// message is a received request.
type message struct {
	headers map[string]string
	frame   []byte
	at      time.Time // when it was received
	// reply answers the request once; nil acknowledges it.
	reply func(*refusal)
}

// refusal is the reason why a worker refuses a request.
type refusal struct {
	code string // "400" or "503"
	text string
}

// serving is the data that a request plane needs to serve an instance.
type serving struct {
	name     Name
	id       uint64
	layouts  []layout // layouts of the subjects; none if shared is set
	subjects []string
	shared   bool // other workers serve the same subjects
	take     func(message)
}
