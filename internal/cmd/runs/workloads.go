package runs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"sync"

	"github.com/replay-llm/replay/internal/file"
	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
)

// Workloads keeps the workloads that were opened last, so that replays that read a trace in the same way share it. It may be
// used by several goroutines at once.
type Workloads struct {
	recent Recent[func() (*openedWorkload, error)]
}

// openedWorkload is a workload and the warnings about its trace.
type openedWorkload struct {
	workload *loadgen.Workload
	warnings []string
}

// Open returns the workload of spec, of a trace of this name. The first call reads it; each call gives the warnings.
func (k *Workloads) Open(name string, spec *replay.Spec, streams replay.Streams) (*loadgen.Workload, error) {
	own := *spec
	opened, err := k.recent.Get(fmt.Sprintf("%q %s", name, plan.WorkloadKey(spec)), func() func() (*openedWorkload, error) {
		return sync.OnceValues(func() (*openedWorkload, error) {
			o := &openedWorkload{}
			w, err := own.Open(context.Background(), replay.Streams{Stdin: streams.Stdin, Warn: func(text string) { o.warnings = append(o.warnings, text) }})
			o.workload = w
			return o, err
		})
	})()
	if err != nil {
		return nil, err
	}
	if streams.Warn != nil {
		for _, text := range opened.warnings {
			streams.Warn(text)
		}
	}
	return opened.workload, nil
}

type workloadsKey struct{}

// WithWorkloads returns a context in which replays share workloads.
func WithWorkloads(ctx context.Context, k *Workloads) context.Context {
	return context.WithValue(ctx, workloadsKey{}, k)
}

// OpenShared returns the workload of spec from the workloads that replays of ctx share; nil if they share none, or this one
// cannot be shared.
func OpenShared(ctx context.Context, spec *replay.Spec, streams replay.Streams) (*loadgen.Workload, error) {
	k, _ := ctx.Value(workloadsKey{}).(*Workloads)
	if k == nil || spec.Stream != nil {
		return nil, nil
	}
	name := ""
	if spec.Trace != nil && spec.Trace.Path != "" {
		stat, err := file.Stat(spec.Trace.Path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, nil // its reader prints why
		case err != nil || !stat.Mode().IsRegular(): // files of a directory change unseen
			return nil, nil
		}
		name = fmt.Sprint(stat.Size(), stat.ModTime().UnixNano()) // a file that changed is another trace
	}
	return k.Open(name, spec, streams)
}
