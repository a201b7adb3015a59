package frontend

import (
	"context"
	"fmt"
	"net/http"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/replay-llm/replay/live/openai"
)

// admission limits how many requests are answered at once, and how many wait for a slot. Requests get slots in the
// order of their arrival. A nil admission accepts all requests.
type admission struct {
	places   *semaphore.Weighted
	limit    int
	most     int64 // requests that may wait
	patience time.Duration
	queued   atomic.Int64
	note     func(more int) // receives the change of the number of waiting requests
}

// newAdmission returns the admission of c, or nil if c sets no limit.
func newAdmission(c *Config) *admission {
	if c.MaxInFlight == 0 {
		return nil
	}
	return &admission{
		places: semaphore.NewWeighted(int64(c.MaxInFlight)), limit: c.MaxInFlight,
		most: int64(c.MaxQueued), patience: c.QueueTimeout, note: c.Metrics.Queued,
	}
}

// admit waits for a slot until ctx ends, and returns the function that releases the slot. The error is 429 if too
// many requests wait already, or 503 if no slot was free in time.
func (a *admission) admit(ctx context.Context) (leave func(), err error) {
	if a == nil {
		return func() {}, nil
	}
	leave = func() { a.places.Release(1) }
	if a.places.TryAcquire(1) {
		return leave, nil
	}
	if n := a.queued.Add(1); n > a.most {
		a.queued.Add(-1)
		return nil, &openai.Error{
			Status: http.StatusTooManyRequests, RetryAfter: 1,
			Message: fmt.Sprintf("%d requests are being answered and %d wait, and no more may", a.limit, a.most),
		}
	}
	a.note(1)
	defer func() { a.queued.Add(-1); a.note(-1) }()
	ctx, release := context.WithTimeout(ctx, a.patience)
	defer release()
	if a.places.Acquire(ctx, 1) != nil {
		return nil, &openai.Error{
			Status: http.StatusServiceUnavailable, RetryAfter: 1,
			Message: fmt.Sprintf("no place became free in %v, and %d requests are being answered", a.patience, a.limit),
		}
	}
	return leave, nil
}

// admitRequest waits for a slot until the client leaves or the server ends. admitRequest answers the client with an
// error and returns ok false if there is no slot.
func (s *Server) admitRequest(w http.ResponseWriter, r *http.Request, kind openai.Kind) (leave func(), ok bool) {
	ctx, release := context.WithCancel(r.Context())
	defer release()
	defer context.AfterFunc(s.ending, release)()
	leave, err := s.admission.admit(ctx)
	if err == nil {
		if s.ending.Err() == nil {
			return leave, true
		}
		leave() // the slot was released by a killed request
	}
	switch {
	case r.Context().Err() != nil:
		s.config.Metrics.Refused(string(kind), statusLeft, "")
	case s.ending.Err() != nil:
		s.refuse(w, kind, &openai.Error{Status: http.StatusServiceUnavailable, Message: "the frontend ends, and did not take the request", RetryAfter: 1})
	default:
		s.refuse(w, kind, err)
	}
	return nil, false
}
