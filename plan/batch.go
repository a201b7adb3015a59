package plan

import (
	"context"
	"sync"
	"sync/atomic"
)

// bench runs points on a number of cores, each point once. The points and the results do not depend on the number of
// cores.
type bench struct {
	run   Run
	cores int
	meter *meter // of all replays, those of forks too

	measures map[Point]*Measure
	order    []Point // in which points were asked for first
}

func newBench(run Run, cores int) *bench {
	return &bench{run: run, cores: max(1, cores), measures: map[Point]*Measure{}, meter: &meter{}}
}

// measure returns the measures of points, in order.
func (b *bench) measure(ctx context.Context, points ...Point) ([]*Measure, error) {
	var fresh []Point
	for _, p := range points {
		if _, seen := b.measures[p]; !seen {
			b.measures[p] = &Measure{Point: p}
			fresh = append(fresh, p)
		}
	}
	b.order = append(b.order, fresh...)
	err := Each(ctx, len(fresh), b.cores, func(ctx context.Context, i int) error {
		m, err := b.run(ctx, fresh[i])
		if err != nil {
			return err
		}
		m.Point = fresh[i]
		*b.measures[fresh[i]] = m
		b.meter.count()
		return nil
	})
	if err != nil {
		return nil, err
	}
	all := make([]*Measure, len(points))
	for i, p := range points {
		all[i] = b.measures[p]
	}
	return all, nil
}

// countRequests returns the number of requests of all replays.
func (b *bench) countRequests() int {
	n := 0
	for _, m := range b.measures {
		n += m.Requests
	}
	return n
}

// forget drops all measures after the first begun points.
func (b *bench) forget(begun int) {
	for _, p := range b.order[begun:] {
		delete(b.measures, p)
	}
	b.order = b.order[:begun]
}

// meter counts replays, and estimates their total.
type meter struct {
	done, expected atomic.Int64
	report         func(done, expected int) // may be nil
}

func (m *meter) count() {
	if n := m.done.Add(1); m.report != nil {
		m.report(int(n), int(max(n, m.expected.Load())))
	}
}

// expect sets the expected number of further replays.
func (m *meter) expect(more int) { m.expected.Store(m.done.Load() + int64(more)) }

// Each calls work(i) for all i below n, in order, on at most cores goroutines. After an error it starts no further
// calls, and returns the error of the smallest i.
func Each(ctx context.Context, n, cores int, work func(ctx context.Context, i int) error) error {
	var (
		next   atomic.Int64
		failed atomic.Bool
		wait   sync.WaitGroup
	)
	errs := make([]error, n)
	for range min(n, max(cores, 1)) {
		wait.Go(func() {
			for !failed.Load() && ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[i] = work(ctx, i); errs[i] != nil {
					failed.Store(true)
				}
			}
		})
	}
	wait.Wait()
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}
