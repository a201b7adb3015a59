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

// admission bounds how many requests are answered at once, and how many wait for a
// place, in the order in which they came. A nil admission accepts all requests.
type admission struct {
	places   *semaphore.Weighted
	limit    int
	most     int64 // that may wait
	patience time.Duration
	queued   atomic.Int64
	note     func(more int) // receives the change of the number that wait
}

// newAdmission returns the admission of c; nil if it has no bound.
func newAdmission(c *Config) *admission {
	if c.MaxInFlight == 0 {
		return nil
	}
	return &admission{
		places: semaphore.NewWeighted(int64(c.MaxInFlight)), limit: c.MaxInFlight,
		most: int64(c.MaxQueued), patience: c.QueueTimeout, note: c.Metrics.Queued,
	}
}

// admit waits for a place until ctx ends, and returns the function that releases it. The error reports that too many
// wait already (429), or that no place became free in time (503).
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

// admitRequest waits for a place for a request, as long as its client does and the server
// serves. It reports whether there is one, and answers the client otherwise.
func (s *Server) admitRequest(w http.ResponseWriter, r *http.Request, kind openai.Kind) (leave func(), ok bool) {
	ctx, release := context.WithCancel(r.Context())
	defer release()
	defer context.AfterFunc(s.ending, release)()
	leave, err := s.admission.admit(ctx)
	if err == nil {
		if s.ending.Err() == nil {
			return leave, true
		}
		leave() // it was the place of a request that was killed
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
