package mocker

import (
	"net"
	"strconv"
	"time"

	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/scheduler"
)

// publishEvents hands KV events to whoever wants them. The worker calls it; nobody
// makes it wait.
func (e *Engine) publishEvents(p *scheduler.Pass) {
	if e.tee != nil {
		e.tee.Enqueue(p.Events)
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

// hasTee reports whether the mocker publishes on sockets of its own.
func (e *Engine) hasTee() bool { return e.options.Engine.KVEventsPort != 0 || e.options.KVHost != "" }

// openTee opens the sockets for KV events, if there are to be any, before there
// is anything to tell.
func (e *Engine) openTee() (err error) {
	if !e.hasTee() {
		return nil
	}
	a, host := &e.options.Engine, e.options.KVHost
	if host == "" {
		host = "*"
	}
	o := kvevents.TeeOptions{Events: tcpEndpoint(host, a.KVEventsPort), BlockTokens: a.BlockTokens, Warn: e.options.Warn}
	if a.ReplayPort != 0 || e.options.KVHost != "" {
		o.Replay = tcpEndpoint(host, a.ReplayPort)
	}
	e.tee, err = kvevents.NewTee(o)
	return err
}

func tcpEndpoint(host string, port uint16) string {
	return "tcp://" + net.JoinHostPort(host, strconv.Itoa(int(port)))
}

// Source returns where subscribers find the sockets of a mocker that has started, and
// nothing if it has none. Those that listen everywhere are found on this machine
// alone.
func (e *Engine) Source() kvevents.Source {
	if e.tee == nil {
		return kvevents.Source{}
	}
	if e.options.KVHost != "" {
		return kvevents.Source{Events: e.tee.Events(), Replay: e.tee.Replay()}
	}
	s := kvevents.Source{Events: tcpEndpoint("127.0.0.1", e.options.Engine.KVEventsPort)}
	if port := e.options.Engine.ReplayPort; port != 0 {
		s.Replay = tcpEndpoint("127.0.0.1", port)
	}
	return s
}

// KVEventSources returns the mocker's socket, or what takes a sink of
// scheduler.KVEvents; none unless KV events are asked for.
func (e *Engine) KVEventSources() ([]engine.KVEventSource, error) {
	switch {
	case e.tee != nil:
		return []engine.KVEventSource{{Zmq: &engine.ZmqSource{Endpoint: e.Source().Events}}}, nil
	case e.options.KVEvents:
		return []engine.KVEventSource{{OnReady: e.setSink}}, nil
	}
	return nil, nil
}

// setSink makes a sink the one that KV events go to.
func (e *Engine) setSink(sink engine.KVEventSink) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.sink = sink
}

// publishEvery is how often a mocker says how full it is.
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
