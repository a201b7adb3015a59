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
	manyRequests  = 8               // number of concurrent requests
	cancelTokens  = 10_000          // tokens of a request that is cancelled
	cancelPatient = 2 * time.Second // limit from the cancellation to the end
	dropPatience  = time.Second     // limit to release a dropped request
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

// checkDescriptors calls methods that must return the same result twice.
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

// compareRanks calls ask twice and compares the ranks.
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

// checkSingle reads one request without a limit of tokens to its end.
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

// checkUsage compares the number of tokens from checkSingle with the usage.
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

// checkConcurrent runs several requests concurrently: first read in turn, then read in parallel.
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

// pullInterleaved reads one element of each request in turn until all end.
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

// pullParallel reads all requests in parallel.
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

// checkCancelReason checks the terminal of the request from checkCancelInTime.
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

// checkCleanup calls Cleanup twice.
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

// checkDropRelease stops reading a request after its first chunk, and checks that the engine releases it.
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

// dropStream reads one element and stops reading.
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

// checkCleanupUnstarted calls Cleanup of an engine that was not started.
func (k *kit) checkCleanupUnstarted(ctx context.Context) error {
	k.engine = nil
	if err := k.callGuarded(ctx, k.factory().Cleanup); err != nil {
		return newFailure(CleanupWithoutStartFailed, err, "")
	}
	return nil
}
