package conformance

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"sync"
	"time"

	"github.com/replay-llm/replay/live/engine"
)

const (
	manyRequests  = 8               // at once
	cancelTokens  = 10_000          // asked for by a request that is to be cancelled
	cancelPatient = 2 * time.Second // until it must have ended
	dropPatience  = time.Second     // until a dropped request must be released
)

// checkStart starts the engine.
func (k *kit) checkStart(ctx context.Context) error {
	k.engine = k.factory()
	config, err := k.startEngine(ctx)
	switch {
	case err != nil:
		return newFailure(StartFailed, err, "")
	case config.Model == "":
		return newFailure(EmptyModelInConfig, nil, "Start gave a config without Model")
	}
	return nil
}

// startEngine starts the kit's engine.
func (k *kit) startEngine(ctx context.Context) (engine.EngineConfig, error) {
	return callWithin(ctx, k.patience, func(ctx context.Context) (engine.EngineConfig, error) {
		return k.engine.Start(ctx, 0)
	})
}

// checkDescriptors asks twice for what does not change.
func (k *kit) checkDescriptors(ctx context.Context) error {
	events, isEvents := k.engine.(engine.KVEventsEngine)
	metrics, isMetrics := k.engine.(engine.MetricsEngine)
	if !isEvents && !isMetrics {
		return &Skipped{"the engine has neither KV events nor metrics"}
	}
	if isEvents {
		if err := k.compareRanks(ctx, KvEventSourcesFailed, KvEventSourcesNotIdempotent, func() (ranks []int, err error) {
			sources, err := events.KVEventSources()
			for _, s := range sources {
				ranks = append(ranks, s.DPRank)
			}
			return ranks, err
		}); err != nil {
			return err
		}
	}
	if !isMetrics {
		return nil
	}
	return k.compareRanks(ctx, SetupMetricsFailed, ComponentMetricsNotIdempotent, func() ([]int, error) {
		b, err := metrics.SetupMetrics(engine.MetricsContext{Register: func(any) error { return nil }})
		return b.DPRanks, err
	})
}

// compareRanks asks for ranks two times and compares.
func (k *kit) compareRanks(ctx context.Context, wrong, unstable Name, ask func() ([]int, error)) error {
	var answers [2][]int
	for i := range answers {
		ranks, err := callWithin(ctx, k.patience, func(context.Context) ([]int, error) { return ask() })
		if err != nil {
			return newFailure(wrong, err, "call %d", i+1)
		}
		answers[i] = ranks
	}
	if !slices.Equal(answers[0], answers[1]) {
		return newFailure(unstable, nil, "ranks %v, then %v", answers[0], answers[1])
	}
	return nil
}

// checkSingle drains one request that sets no limit.
func (k *kit) checkSingle(ctx context.Context) error {
	s, err := k.openStream(ctx, k.newRequest())
	if err != nil {
		return newFailure(GenerateFailed, err, "")
	}
	var ended bool
	k.chunks, ended = s.drainAll(k.patience)
	if f := judgeStream(k.chunks, ended, k.patience); f != nil {
		return f
	}
	return nil
}

// checkUsage compares the tokens of that request with its usage.
func (k *kit) checkUsage(context.Context) error {
	var chunked uint64
	var usage *engine.Usage
	for _, e := range k.chunks {
		chunked += uint64(len(e.chunk.TokenIDs))
		if e.chunk.CompletionUsage != nil {
			usage = e.chunk.CompletionUsage
		}
	}
	switch {
	case usage == nil:
		return &Skipped{"the engine reports no usage"}
	case uint64(usage.CompletionTokens) != chunked:
		return &Failure{Name: CompletionTokensMismatch, Chunked: chunked, Reported: uint64(usage.CompletionTokens)}
	}
	return nil
}

// checkConcurrent has several requests in the engine, taken from in turn and then all
// at the same time.
func (k *kit) checkConcurrent(ctx context.Context) error {
	err := k.callGuarded(ctx, k.pullInterleaved)
	if err == nil {
		err = k.callGuarded(ctx, k.pullParallel)
	}
	if err != nil {
		return newFailure(ConcurrentGenerateFailed, err, "")
	}
	return nil
}

// pullInterleaved takes one element of each request after the other until all end.
func (k *kit) pullInterleaved(ctx context.Context) error {
	type open struct {
		next func() (element, bool)
		seen int
	}
	all := make([]*open, manyRequests)
	for i := range all {
		s, err := k.openStream(ctx, k.newRequest())
		if err != nil {
			return fmt.Errorf("request %d of %d: %w", i+1, manyRequests, err)
		}
		defer s.release()
		next, stop := iter.Pull(s.allElements())
		defer stop()
		all[i] = &open{next: next}
	}
	for running := manyRequests; running > 0; {
		running = 0
		for i, o := range all {
			e, more := o.next()
			switch {
			case more && e.err != nil:
				return fmt.Errorf("request %d of %d: %w", i+1, manyRequests, e.err)
			case more:
				o.seen++
				running++
			case o.seen == 0:
				return fmt.Errorf("request %d of %d yielded nothing", i+1, manyRequests)
			}
		}
	}
	return nil
}

// pullParallel takes from all requests at the same time.
func (k *kit) pullParallel(ctx context.Context) error {
	results := make([]error, manyRequests)
	var wg sync.WaitGroup
	for i := range results {
		wg.Go(func() {
			s, err := k.openStream(ctx, k.newRequest())
			if err != nil {
				results[i] = fmt.Errorf("parallel request %d of %d: %w", i+1, manyRequests, err)
				return
			}
			all, ended := s.drainAll(k.patience)
			if f := judgeStream(all, ended, k.patience); f != nil {
				f.Check = fmt.Sprintf("parallel request %d of %d", i+1, manyRequests)
				results[i] = f
			}
		})
	}
	wg.Wait()
	for _, err := range results {
		if err != nil {
			return err
		}
	}
	return nil
}

// checkCancelInTime stops a long request right after its start.
func (k *kit) checkCancelInTime(ctx context.Context) error {
	rq := k.newRequest()
	rq.SetMaxTokens(cancelTokens)
	s, err := k.openStream(ctx, rq)
	if err != nil {
		return newFailure(GenerateFailed, err, "")
	}
	s.rc.Stop()
	all, ended := s.drainAll(cancelPatient)
	if !ended {
		return &Failure{Name: CancellationNotObserved, After: cancelPatient,
			Detail: fmt.Sprintf("the stream had %d elements and was not over", len(all))}
	}
	k.last = all
	return nil
}

// checkCancelReason checks the end of that request.
func (k *kit) checkCancelReason(context.Context) error {
	f := judgeStream(k.last, true, cancelPatient)
	if f != nil && (f.Name == NoChunksYielded || f.Name == StreamYieldedError) {
		return f
	}
	last := k.last[len(k.last)-1].chunk
	if last == nil || last.FinishReason != engine.FinishCancelled {
		return newFailure(CancellationIgnored, nil, "the last of %d elements is %s, must be a chunk with finish_reason %q",
			len(k.last), describeElement(k.last[len(k.last)-1]), engine.FinishCancelled)
	}
	return nil
}

func describeElement(e element) string {
	switch {
	case e.err != nil:
		return "the error " + e.err.Error()
	case e.chunk.FinishReason == "":
		return "a chunk without finish_reason"
	}
	return fmt.Sprintf("a chunk with finish_reason %q", string(e.chunk.FinishReason))
}

// checkCleanup cleans up two times.
func (k *kit) checkCleanup(ctx context.Context) error {
	if err := k.callGuarded(ctx, k.engine.Cleanup); err != nil {
		return newFailure(CleanupFailed, err, "")
	}
	if err := k.callGuarded(ctx, k.engine.Cleanup); err != nil {
		return newFailure(SecondCleanupFailed, err, "")
	}
	k.engine = nil
	return nil
}

// checkDropRelease walks away from a request after its first chunk.
func (k *kit) checkDropRelease(ctx context.Context) error {
	k.engine = k.factory()
	active, counts := k.engine.(engine.ActiveEngine)
	if !counts {
		return &Skipped{"the engine does not report how many requests are active"}
	}
	if _, err := k.startEngine(ctx); err != nil {
		return newFailure(StartFailed, err, "a second engine")
	}
	rq := k.newRequest()
	rq.SetMaxTokens(cancelTokens)
	s, err := k.openStream(ctx, rq)
	if err != nil {
		return newFailure(GenerateFailed, err, "")
	}
	if f := k.dropStream(ctx, s); f != nil {
		return f
	}
	for limit := time.Now().Add(dropPatience); active.ActiveRequests() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(limit) {
			return newFailure(DropNotReleased, nil, "%d requests are active %v after their consumer left", active.ActiveRequests(), dropPatience)
		}
	}
	if err := k.callGuarded(ctx, k.engine.Cleanup); err != nil {
		return newFailure(CleanupFailed, err, "")
	}
	return nil
}

// dropStream takes one element and leaves.
func (k *kit) dropStream(ctx context.Context, s stream) *Failure {
	seen := 0
	err := k.callGuarded(ctx, func(context.Context) error {
		defer s.release()
		for e := range s.allElements() {
			seen++
			return e.err
		}
		return nil
	})
	switch {
	case err != nil:
		return newFailure(StreamYieldedError, err, "")
	case seen == 0:
		return newFailure(NoChunksYielded, nil, "the stream ended with nothing in it")
	}
	return nil
}

// checkCleanupUnstarted cleans up an engine that was never started.
func (k *kit) checkCleanupUnstarted(ctx context.Context) error {
	k.engine = nil
	if err := k.callGuarded(ctx, k.factory().Cleanup); err != nil {
		return newFailure(CleanupWithoutStartFailed, err, "")
	}
	return nil
}
