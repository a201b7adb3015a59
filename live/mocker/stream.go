package mocker

import (
	"strconv"
	"time"

	"github.com/replay-llm/replay/internal/bell"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
	"github.com/replay-llm/replay/sim/prompt"
)

// stream is what the scheduler has done for one request so far. The scheduler never waits for its reader:
// tokens are a number until they are read.
type stream struct {
	rc     engine.GenContext
	hashes []uint64  // of the blocks of its prompt
	text   *text     // nil if KV events tell no tokens
	room   *uint64   // where its prefill is awaited; nil: nowhere
	notify bell.Bell // something has changed

	course course // under the engine's mu, as is
	progress
}

// progress is how far a stream is.
type progress struct {
	tokens int // that have come
	reused int // prompt tokens found cached
	ended  bool
	err    error // when it ended before its last token
}

// setTokens sets how many tokens there are by now.
func (s *stream) setTokens(tokens int) {
	if s.tokens == 0 {
		s.rc.NotifyFirstToken()
	}
	s.tokens = tokens
}

// endWith notes that no more tokens come.
func (s *stream) endWith(err error) {
	if !s.ended {
		s.ended, s.err = true, err
		s.notify.Ring()
	}
}

// internPrompt gives a request its prompt, as a path of the scheduler's tree, which
// only the worker's goroutine may touch: blocks are hashed where requests come in,
// and interned here. First the tree drops prompts that no request and no cache needs.
func (e *Engine) internPrompt(core scheduler.Core, q *sim.Request) {
	e.mu.Lock()
	s := e.streams[q.ID]
	e.mu.Unlock()
	if s.text != nil {
		e.texts.addRequest(q.ID, s.text, q.OutputTokens)
	}
	if e.tree.WantsSweep() && core.Able()&scheduler.Remembers != 0 {
		e.tree.Sweep(func(need func(prompt.NodeID)) {
			for _, end := range e.prompts {
				need(end)
			}
			core.Nodes(need)
		})
	}
	q.Prompt = e.tree.Add(s.hashes, q.InputTokens)
	if n := len(q.Prompt.Nodes); n > 0 {
		e.prompts[q.ID] = q.Prompt.Nodes[n-1]
	}
}

// noteAdmitted notes what was found in the cache. The worker calls it, as it does
// those below.
func (e *Engine) noteAdmitted(at sim.Time, all []scheduler.Admission) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, a := range all {
		if s := e.streams[a.Request]; s != nil {
			s.reused = max(s.reused, a.Reused)
			e.noteAdmission(s, at, a.Reused)
		}
		e.cached += a.Reused
	}
}

// handOut gives the streams the tokens of a pass that has ended, and wakes their readers when they can read them.
func (e *Engine) handOut(core scheduler.Core, p *scheduler.Pass) {
	e.giveTokens(core, p)
	for _, s := range e.gained {
		s.notify.Ring()
	}
	clear(e.gained)
	e.gained = e.gained[:0]
}

// giveTokens gives the streams the tokens of a pass. The watcher gets the pass before any
// reader can see a token: an answer that a client has read is in the counters.
func (e *Engine) giveTokens(core scheduler.Core, p *scheduler.Pass) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held, e.computed = p.Detail.Held, e.computed+p.PrefillTokens
	for _, id := range e.leaving { // the pass may have been planned before they left
		delete(e.prompts, id)
	}
	e.leaving = e.leaving[:0]
	e.watchPass(p)
	e.endAborted(p)
	e.endFinished(p)
	core.Progress(func(id sim.RequestID, tokens int, _ sim.Time) {
		if s := e.streams[id]; s != nil {
			e.noteTokens(s, tokens, p.End)
		}
	})
	e.tellPass()
}

// endFinished ends the streams of requests that got their last token. e.mu is held.
func (e *Engine) endFinished(p *scheduler.Pass) {
	for i := range p.Marks {
		m := &p.Marks[i]
		s := e.streams[m.Request]
		if m.Last {
			e.leaving = append(e.leaving, m.Request)
		}
		if !m.Last || s == nil {
			continue
		}
		e.noteTokens(s, m.Tokens, p.End)
		e.tellOver(s, p.End, s.course.why)
		e.removeStream(m.Request)
		e.finishStream(s, m.Handoff)
	}
}

// endAborted ends the streams of requests that the scheduler has aborted. e.mu is held.
func (e *Engine) endAborted(p *scheduler.Pass) {
	for i := range p.Aborted {
		a := &p.Aborted[i]
		if s := e.streams[a.Request]; s != nil {
			e.tellOver(s, p.Start, engine.FinishError(a.Reason))
			s.endWith(fault.New(fault.BackendUnknown, "%s", a.Reason))
		}
		e.removeStream(a.Request)
		e.leaving = append(e.leaving, a.Request)
	}
}

// finishStream ends a stream after its last token. A decode worker that awaits a prefill is released once the
// KV cache has arrived. If no decode worker waits, the stream ends only then.
func (e *Engine) finishStream(s *stream, handoff sim.Time) {
	delay := time.Duration(max(0, handoff) * 1e6)
	switch {
	case s.room != nil:
		s.endWith(nil)
		time.AfterFunc(delay, func() { e.rooms.Complete(*s.room) })
	case delay > 0:
		time.AfterFunc(delay, func() {
			e.mu.Lock()
			defer e.mu.Unlock()
			s.endWith(nil)
		})
	default:
		s.endWith(nil)
	}
}

// noteCanceled forgets a request that was taken out.
func (e *Engine) noteCanceled(id sim.RequestID, p *scheduler.Pass) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = p.Detail.Held
	if s := e.streams[id]; s != nil {
		e.tellOver(s, e.clock.Now(), engine.FinishCancelled)
		s.endWith(fault.New(fault.BackendCancelled, "mocker: the request was taken off the scheduler"))
	}
	e.removeStream(id)
	e.leaving = append(e.leaving, id)
	e.watchPass(p)
	e.tellPass()
}

// publishEvents hands KV events to their consumers. The worker calls it, and it never waits.
func (e *Engine) publishEvents(p *scheduler.Pass) {
	for i := range p.Events {
		p.Events[i].Rank = e.options.Rank
	}
	if e.tee != nil {
		e.tee.EnqueueStep(p.Events, e.texts.of)
	}
	e.mu.Lock()
	sink := e.sink
	e.mu.Unlock()
	if sink == nil {
		return
	}
	events := make([]any, len(p.Events))
	for i := range p.Events {
		events[i] = p.Events[i]
	}
	sink(events)
}

// openTee opens the sockets for KV events, if there are to be any, before there
// is anything to tell.
func (e *Engine) openTee() (err error) {
	if s := e.options.KVSockets; s != nil {
		o := *s
		o.BlockTokens, o.Warn = e.options.Engine.BlockTokens, e.options.Warn
		e.tee, err = kvevents.NewTee(o)
	}
	return err
}

// tcpEndpoint returns the endpoint of a port on loopback.
func tcpEndpoint(port uint16) string { return "tcp://127.0.0.1:" + strconv.Itoa(int(port)) }

// Source returns where subscribers find the sockets of a mocker that has started, and
// nothing if it has none.
func (e *Engine) Source() (s kvevents.Source) {
	if e.tee == nil {
		return s
	}
	return kvevents.Source{Events: e.tee.Events(), Replay: e.tee.Replay(), Topic: e.options.KVSockets.Topic, Rank: e.options.Rank}
}

// KVEventSources returns the mocker's socket, if it has one, and the source for a sink of scheduler.KVEvents; none
// unless KV events are enabled.
func (e *Engine) KVEventSources() ([]engine.KVEventSource, error) {
	one := engine.KVEventSource{DPRank: int(e.options.Rank), OnReady: e.setSink}
	switch at := e.Source(); {
	case e.tee != nil:
		one.Zmq = &engine.ZmqSource{Endpoint: at.Events, Topic: at.Topic}
	case !e.options.KVEvents:
		return nil, nil
	}
	return []engine.KVEventSource{one}, nil
}

// setSink makes a sink the one that KV events go to.
func (e *Engine) setSink(sink engine.KVEventSink) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sink = sink
}

// publishEvery is how often a mocker publishes its load.
const publishEvery = 100 * time.Millisecond

// SetupMetrics publishes how full the one rank is, every 100 ms while the mocker
// runs.
func (e *Engine) SetupMetrics(engine.MetricsContext) (engine.MetricsBindings, error) {
	return engine.MetricsBindings{DPRanks: []int{0}, OnPublisherReady: func(_ int, publish func(engine.RankSnapshot)) {
		e.mu.Lock()
		ended, up := e.ended, e.worker != nil
		e.mu.Unlock()
		if !up {
			return
		}
		go func() {
			tick := time.NewTicker(publishEvery)
			defer tick.Stop()
			for {
				publish(e.Fullness())
				select {
				case <-tick.C:
				case <-ended:
					return
				}
			}
		}()
	}}, nil
}

// Fullness returns how full the mocker is, as of its latest pass.
func (e *Engine) Fullness() engine.RankSnapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := engine.RankSnapshot{ActiveBlocks: e.held, TotalBlocks: e.options.Engine.Blocks, HitRate: -1}
	if all := e.cached + e.computed; all > 0 {
		s.HitRate = float64(e.cached) / float64(all)
	}
	return s
}
