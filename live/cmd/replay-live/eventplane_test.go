package main

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/poll"
	"github.com/replay-llm/replay/live/drt/drttest"
)

// A worker with the files of a model registers on the event plane of the published package, in both layouts. The
// worker registers again after a lost lease, and unregisters at its end. Without the files of a model, or with
// --event-plane=none, a worker does not register.
func TestEventPlane(t *testing.T) {
	t.Parallel()
	servers := drttest.Start(t)
	c := &compound{t: t, servers: servers.Stack}
	model := peerModel(t)
	told := func() (of []string) {
		for _, key := range servers.Keys(t) {
			if strings.HasPrefix(key, "v1/event_") || strings.HasPrefix(key, "v1/instances/dynamo/backend/worker_kv_indexer_query") {
				of = append(of, key[:strings.LastIndexByte(key, '/')])
			}
		}
		return of
	}
	c.worker()
	c.worker("--model-path="+model, "--event-plane=none")
	if got := told(); len(got) > 0 {
		t.Errorf("told by workers that are not to: %v", got)
	}
	w := c.worker("--model-path=" + model)
	const newer = "/namespace/dynamo/component/backend/endpoint/generate/topic/kv-events"
	want := []string{"v1/event_channels/dynamo/backend/kv-events", "v1/event_channels" + newer, "v1/event_sources" + newer, "v1/instances/dynamo/backend/worker_kv_indexer_query_dp0"}
	if got := told(); !slices.Equal(got, want) {
		t.Fatalf("told %v, want %v", got, want)
	}
	id, err := strconv.ParseUint(w.Instance, 16, 64)
	if err != nil {
		t.Fatal(err)
	}
	servers.Revoke(t, id)
	poll.Until(t, "all is told again", func() bool { return slices.Equal(told(), want) })
	w.end()
	if got := told(); len(got) > 0 {
		t.Errorf("told by a worker that has left: %v", got)
	}
}
