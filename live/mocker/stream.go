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

// stream is the progress of one request on the scheduler. The scheduler never waits for the reader of a stream: only
// the number of tokens is stored until the reader draws the tokens.
type stream struct {
	rc     engine.GenContext
	hashes []uint64  // hashes of the blocks of the prompt
	text   *text     // nil if KV events have no tokens
	room   *uint64   // room at which the decode worker waits for this prefill; nil: no room
	notify bell.Bell // rings after each change

	course course // guarded by the engine's mu, like progress
	progress
}

// progress is the current state of a stream.
type progress struct {
	tokens int // number of generated tokens
	reused int // cached prompt tokens
	ended  bool
	err    error // the error if the stream ended before its last token
}

// setTokens sets the number of generated tokens.
func (s *stream) setTokens(tokens int) {
	if s.tokens == 0 {
		s.rc.NotifyFirstToken()
	}
	s.tokens = tokens
}

// endWith ends the stream, with an error if err is not nil.
func (s *stream) endWith(err error) {
	if !s.ended {
		s.ended, s.err = true, err
		s.notify.Ring()
	}
}

// internPrompt adds the prompt of a request to the scheduler's tree, which only the worker's goroutine may use. The
// blocks were hashed in submitRequest. First the tree drops prompts that no request and no cache needs.
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

// noteAdmitted records the cached tokens of admitted requests. noteAdmitted runs on the worker's goroutine, like the
// functions below.
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

// handOut gives the streams the tokens of a finished pass, and wakes their readers.
func (e *Engine) handOut(core scheduler.Core, p *scheduler.Pass) {
	e.giveTokens(core, p)
	for _, s := range e.gained {
		s.notify.Ring()
	}
	clear(e.gained)
	e.gained = e.gained[:0]
}

// giveTokens gives the streams the tokens of a pass. The watcher receives the pass before any reader can see a token,
// so the counters include every token that a client has read.
func (e *Engine) giveTokens(core scheduler.Core, p *scheduler.Pass) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held, e.computed = p.Detail.Held, e.computed+p.PrefillTokens
	for _, id := range e.leaving { // the pass may have been planned before these requests left
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
	e.reportPass()
}

// endFinished ends the streams of requests that received their last token. e.mu is held.
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
		e.reportEnd(s, p.End, s.course.why)
		e.removeStream(m.Request)
		e.finishStream(s, m.Handoff)
	}
}

// endAborted ends the streams of requests that the scheduler aborted. e.mu is held.
func (e *Engine) endAborted(p *scheduler.Pass) {
	for i := range p.Aborted {
		a := &p.Aborted[i]
		if s := e.streams[a.Request]; s != nil {
			e.reportEnd(s, p.Start, engine.FinishError(a.Reason))
			s.endWith(fault.New(fault.BackendUnknown, "%s", a.Reason))
		}
		e.removeStream(a.Request)
		e.leaving = append(e.leaving, a.Request)
	}
}

// finishStream ends a stream after its last token. A waiting decode worker is released after the transfer of the KV
// cache. If no decode worker waits, the stream ends after the transfer.
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

// noteCanceled ends and removes a request that was cancelled on the scheduler.
func (e *Engine) noteCanceled(id sim.RequestID, p *scheduler.Pass) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.held = p.Detail.Held
	if s := e.streams[id]; s != nil {
		e.reportEnd(s, e.clock.Now(), engine.FinishCancelled)
		s.endWith(fault.New(fault.BackendCancelled, "mocker: the request was taken off the scheduler"))
	}
	e.removeStream(id)
	e.leaving = append(e.leaving, id)
	e.watchPass(p)
	e.reportPass()
}

// publishEvents passes KV events to the sockets and the sink. publishEvents never blocks, because the worker calls
// it.
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

// openTee opens the configured sockets for KV events, before the first event.
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

// Source returns the addresses of the mocker's sockets for KV events, or nothing if it has no sockets. The mocker
// must be started.
func (e *Engine) Source() (s kvevents.Source) {
	if e.tee == nil {
		return s
	}
	return kvevents.Source{Events: e.tee.Events(), Replay: e.tee.Replay(), Topic: e.options.KVSockets.Topic, Rank: e.options.Rank}
}

// KVEventSources returns the mocker's socket, or without a socket a source that sends scheduler.KVEvents to a sink.
// KVEventSources returns nothing if KV events are disabled.
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

// setSink sets the sink of KV events.
func (e *Engine) setSink(sink engine.KVEventSink) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sink = sink
}

// publishEvery is the interval at which a mocker publishes its load.
const publishEvery = 100 * time.Millisecond

// SetupMetrics publishes the load of the mocker every 100 ms while it runs.
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

// Fullness returns the load of the mocker after its latest pass.
func (e *Engine) Fullness() engine.RankSnapshot {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := engine.RankSnapshot{ActiveBlocks: e.held, TotalBlocks: e.options.Engine.Blocks, HitRate: -1}
	if all := e.cached + e.computed; all > 0 {
		s.HitRate = float64(e.cached) / float64(all)
	}
	return s
}
