package route

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/live/kvevents"
)

// followed is a worker whose KV events are followed.
type followed struct {
	sources     []kvevents.Source
	subscribers []*kvevents.Subscriber
	feeds       []*kvevents.Feed
}

// followWorker makes sources those of a worker's events; none forgets what was known
// of the worker's cache. Following the same ones again changes nothing.
func (p *picker) followWorker(worker uint64, sources []kvevents.Source) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.follows[worker]
	switch {
	case p.closed:
		return errClosed
	case p.index == nil, f != nil && slices.Equal(f.sources, sources):
		return nil
	case f != nil:
		f.stopFollowing()
		delete(p.follows, worker)
	}
	if len(sources) == 0 {
		return nil
	}
	f = &followed{sources: slices.Clone(sources)}
	for _, s := range sources {
		if err := p.subscribeTo(f, worker, s); err != nil {
			f.stopFollowing()
			return fmt.Errorf("worker %x: %w", worker, err)
		}
	}
	p.follows[worker] = f
	return nil
}

func (p *picker) subscribeTo(f *followed, worker uint64, s kvevents.Source) error {
	feed := p.index.Feed(p.numberOf(worker))
	sub, err := kvevents.Subscribe(kvevents.SubscriberOptions{
		Events: s.Events, Replay: s.Replay, Topic: s.Topic, Rank: s.Rank,
		BlockTokens: p.blockTokens, Sink: feed, Warn: p.options.Warn,
	})
	if err != nil {
		return err
	}
	f.feeds = append(f.feeds, feed)
	f.subscribers = append(f.subscribers, sub)
	return nil
}

// stopFollowing stops following a worker and forgets its cache.
func (f *followed) stopFollowing() {
	for i, s := range f.subscribers {
		s.Close()
		f.feeds[i].Leave()
	}
}

// unfollowOthers stops following the workers for which serves reports false.
func (p *picker) unfollowOthers(serves func(worker uint64) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for worker, f := range p.follows {
		if !serves(worker) {
			f.stopFollowing()
			delete(p.follows, worker)
		}
	}
}
