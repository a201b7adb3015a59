package drt_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/drttest"
	"github.com/replay-llm/replay/live/fault"
)

// generating answers like an engine: the n-th token after the prompt is n, and the terminal has the usage. If
// breakAfter is not 0, the stream breaks after this number of tokens.
func generating(breakAfter *atomic.Int64, link string) drt.Handler {
	return func(_ context.Context, _ cancel.Context, rq *drt.Request) (iter.Seq2[drt.Item, error], error) {
		var in struct {
			Tokens []int `json:"token_ids"`
			Stop   struct {
				Max int `json:"max_tokens"`
			} `json:"stop_conditions"`
			Link json.RawMessage `json:"migration_link"`
		}
		if err := json.Unmarshal(rq.Payload, &in); err != nil {
			return nil, fault.New(fault.BackendInvalidArgument, "%w", err)
		}
		if in.Stop.Max < 0 {
			return nil, fault.New(fault.BackendInvalidArgument, "max_tokens is %d", in.Stop.Max)
		}
		return func(yield func(drt.Item, error) bool) {
			for i := range in.Stop.Max {
				if n := breakAfter.Load(); n > 0 && int64(i) == n {
					yield(drt.Item{}, fault.New(fault.BackendEngineShutdown, "going"))
					return
				}
				if !yield(drt.Item{Data: fmt.Appendf(nil, `{"token_ids":[%d],"worker_trace_link":%q}`, len(in.Tokens)+i, link)}, nil) {
					return
				}
			}
			yield(drt.Item{Last: true, Data: fmt.Appendf(nil,
				`{"token_ids":[],"finish_reason":"length","from":%q,"migrated":%q,"completion_usage":{"prompt_tokens":%d,"completion_tokens":%d,"total_tokens":%d}}`,
				link, in.Link, len(in.Tokens), in.Stop.Max, len(in.Tokens)+in.Stop.Max)}, nil)
		}, nil
	}
}

// tokens reads a stream and returns its tokens, its terminal and its error.
func tokens(t *testing.T, s *drt.Stream) (all []int, terminal map[string]any, failed error) {
	t.Helper()
	for item, err := range s.Items() {
		if err != nil {
			return all, terminal, err
		}
		var chunk struct {
			Tokens []int `json:"token_ids"`
		}
		if err := json.Unmarshal(item.Data, &chunk); err != nil {
			t.Fatal(err)
		}
		all = append(all, chunk.Tokens...)
		if err := json.Unmarshal(item.Data, &terminal); err != nil {
			t.Fatal(err)
		}
	}
	return all, terminal, nil
}

// If an instance fails, the request continues at another instance. The caller receives one stream without a gap.
func TestMigration(t *testing.T) {
	hub := drttest.Start(t)
	var breaks [2]atomic.Int64
	for i := range breaks {
		rt := join(t, hub.Config())
		serve(t, rt, "generate", generating(&breaks[i], fmt.Sprint("link ", i)), drt.ServeOptions{})
	}
	const payload = `{"token_ids":[7,7,7],"stop_conditions":{"max_tokens":10,"min_tokens":null},"model":"m"}`
	connect := func(moves int) *drt.Client {
		rt := join(t, hub.Config())
		c, err := endpoint(t, rt, "generate").Client(limited(t), drt.ClientOptions{Migrations: moves})
		if err != nil {
			t.Fatal(err)
		}
		await(t, c, 2)
		return c
	}
	run := func(moves int) ([]int, map[string]any, error) {
		s, err := connect(moves).Generate(limited(t), cancel.New(""), &drt.Request{Payload: json.RawMessage(payload)}, drt.RoundRobin())
		if err != nil {
			t.Fatal(err)
		}
		return tokens(t, s)
	}
	want := "[3 4 5 6 7 8 9 10 11 12]"

	breaks[0].Store(4)
	got, terminal, err := run(1)
	if err != nil || fmt.Sprint(got) != want {
		t.Errorf("tokens %v, %v; want %s", got, err, want)
	}
	if terminal["from"] != "link 1" || terminal["migrated"] != `"link 0"` {
		t.Errorf("terminal %v, want the second worker's, which knows the first", terminal)
	}
	if usage := fmt.Sprint(terminal["completion_usage"]); usage != "map[completion_tokens:10 prompt_tokens:3 total_tokens:13]" {
		t.Errorf("usage %s, want that of the whole request", usage)
	}

	if got, _, err := run(0); !errors.Is(err, fault.BackendEngineShutdown) || len(got) != 4 {
		t.Errorf("without migration: %v, %v; want four tokens and the error", got, err)
	}
	breaks[1].Store(3)
	if got, _, err := run(1); !errors.Is(err, fault.BackendEngineShutdown) || fmt.Sprint(got) != "[3 4 5 6 7 8 9]" {
		t.Errorf("both break: %v, %v; want the tokens of both and the error", got, err)
	}
	// Each worker breaks after some items, until no worker is left.
	if got, _, err := run(9); err == nil || !strings.Contains(err.Error(), "going") || fmt.Sprint(got) != "[3 4 5 6 7 8 9]" {
		t.Errorf("both break, any number of moves: %v, %v", got, err)
	}
}
