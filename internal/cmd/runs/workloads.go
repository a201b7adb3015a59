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

// Workloads caches recently opened workloads, so that replays with the same trace and the same reader settings share
// it. Workloads is safe for concurrent use.
type Workloads struct {
	recent Recent[func() (*openedWorkload, error)]
}

// openedWorkload is a workload with the warnings about its trace.
type openedWorkload struct {
	workload *loadgen.Workload
	warnings []string
}

// Open returns the workload of spec for the trace with the given name. The first call reads the trace. Each call
// repeats the warnings.
func (k *Workloads) Open(name string, spec *replay.Spec, streams replay.Streams) (*loadgen.Workload, error) {
	own := *spec
	opened, err := k.recent.Get(fmt.Sprintf("%q %s", name, plan.WorkloadKey(spec)), func() func() (*openedWorkload, error) {
		return sync.OnceValues(func() (*openedWorkload, error) {
			o := &openedWorkload{}
			w, err := own.Open(context.Background(), replay.Streams{Stdin: streams.Stdin, Warn: func(text string) { o.warnings = append(o.warnings, text) }})
			if err == nil {
				w.ShareTrees()
			}
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

// WithWorkloads returns a context with which replays share workloads.
func WithWorkloads(ctx context.Context, k *Workloads) context.Context {
	return context.WithValue(ctx, workloadsKey{}, k)
}

// OpenShared returns the workload of spec from the workloads that ctx shares. OpenShared returns nil if ctx shares no
// workloads, or if the workload of spec cannot be shared.
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
			return nil, nil // the reader reports the error
		case err != nil || !stat.Mode().IsRegular(): // changes of files in a directory cannot be detected
			return nil, nil
		}
		name = fmt.Sprint(stat.Size(), stat.ModTime().UnixNano()) // a file that changed is a different trace
	}
	return k.Open(name, spec, streams)
}
