package mocker

import (
	"sync"
	"time"

	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/replay/online"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// stream is what the scheduler has done for one request so far. The scheduler
// never waits for whoever reads it: tokens are a number until somebody does.
type stream struct {
	rc     engine.GenContext
	room   *uint64       // where its prefill is awaited; nil: nowhere
	notify chan struct{} // of capacity 1: something has changed

	mu     sync.Mutex
	tokens int // that have come
	reused int // prompt tokens found cached
	ended  bool
	err    error // when it ended before its last token
}

// progress is a look at a stream.
type progress struct {
	tokens, reused int
	ended          bool
	err            error
}

func (s *stream) readProgress() progress {
	s.mu.Lock()
	defer s.mu.Unlock()
	return progress{s.tokens, s.reused, s.ended, s.err}
}

// updateStream changes a stream that has not ended and tells its reader.
func (s *stream) updateStream(do func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	do()
	select {
	case s.notify <- struct{}{}:
	default:
	}
}

// setTokens sets how many tokens there are by now.
func (s *stream) setTokens(tokens int) {
	s.updateStream(func() {
		if s.tokens == 0 {
			s.rc.NotifyFirstToken()
		}
		s.tokens = tokens
	})
}

// endWith notes that no more tokens come.
func (s *stream) endWith(err error) { s.updateStream(func() { s.ended, s.err = true, err }) }

// noteAdmitted notes what was found in the cache. The worker calls it, as it does
// those below.
func (e *Engine) noteAdmitted(_ sim.Time, all []scheduler.Admission) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range all {
		if s := e.streams[a.Request]; s != nil {
			s.updateStream(func() { s.reused = max(s.reused, a.Reused) })
		}
		e.load.noteReused(a.Reused)
	}
}

// endFinished ends the streams of requests that got their last token.
func (e *Engine) endFinished(p *scheduler.Pass) *online.Barrier {
	e.load.notePass(p.Detail, p.PrefillTokens)
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range p.Marks {
		m := &p.Marks[i]
		s := e.streams[m.Request]
		if !m.Last || s == nil {
			continue
		}
		s.setTokens(m.Tokens)
		e.removeStream(m.Request)
		e.finishStream(s, m.Handoff)
	}
	return nil
}

// finishStream ends a stream whose tokens are all there. When a decode worker awaits a
// prefill, it is told once the KV cache has got there; when none does, the
// stream ends only then.
func (e *Engine) finishStream(s *stream, handoff sim.Time) {
	there := func() { s.endWith(nil) }
	if rooms := e.rooms; s.room != nil {
		s.endWith(nil)
		there = func() { rooms.Complete(*s.room) }
	}
	if handoff <= 0 {
		there()
		return
	}
	time.AfterFunc(time.Duration(handoff*1e6), there)
}

// noteProgress gives their tokens to the streams that go on.
func (e *Engine) noteProgress(core scheduler.Core) {
	p, ok := core.(scheduler.Progresser)
	if !ok {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	p.Progress(func(id sim.RequestID, tokens int, _ sim.Time) {
		if s := e.streams[id]; s != nil {
			s.setTokens(tokens)
		}
	})
}

// noteCanceled forgets a request that was taken out.
func (e *Engine) noteCanceled(id sim.RequestID, p *scheduler.Pass) {
	e.load.notePass(p.Detail, 0)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.removeStream(id)
}
