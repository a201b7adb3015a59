package bench

import (
	"bytes"
	"context"
	"errors"
	"iter"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/engine"
)

// stampRole is the argument that makes this program a worker with stamps as its engine.
const stampRole = "stamps"

// stampEvery is the time between two tokens of stamps.
const stampEvery = 50 * time.Millisecond

// stamps is an engine: each token is the time of its creation, in microseconds.
type stamps struct{ engine.Defaults }

func (stamps) Start(context.Context, uint64) (engine.EngineConfig, error) {
	return engine.EngineConfig{Model: "m", ServedModelName: "m", ContextLength: 8192}, nil
}

func (stamps) Cleanup(context.Context) error { return nil }

func (stamps) Generate(ctx context.Context, rq *engine.Request, _ engine.GenContext) (iter.Seq2[*engine.Chunk, error], error) {
	return func(yield func(*engine.Chunk, error) bool) {
		tick := time.NewTicker(stampEvery)
		defer tick.Stop()
		limit := rq.MaxTokens(16)
		for i := range limit {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
			c := &engine.Chunk{TokenIDs: []uint32{readClock()}}
			if i == limit-1 {
				c.FinishReason, c.CompletionUsage = engine.FinishLength, engine.NewUsage(uint32(len(rq.TokenIDs)), limit)
			}
			if !yield(c, nil) {
				return
			}
		}
	}, nil
}

// readClock returns the time in microseconds, modulo 2³².
func readClock() uint32 { return uint32(time.Now().UnixMicro()) }

// serveStamps serves stamps through the etcd and NATS at two URLs.
func serveStamps(at []string) error {
	if len(at) != 2 {
		return errors.New("must be the URLs of etcd and NATS")
	}
	w, err := engine.NewWorker(stamps{}, engine.WorkerConfig{
		Runtime: &drt.Config{Etcd: drt.EtcdConfig{Endpoints: at[:1]}, NATS: drt.NATSConfig{URL: at[1]}}, NoKVRouting: true, Log: slog.New(slog.DiscardHandler),
		Ready: func(engine.Ready) error { _, err := os.Stdout.WriteString("{}\n"); return err },
	})
	if err != nil {
		return err
	}
	return w.Run(context.Background())
}

// measureStamps returns the time of tokens from the worker to the client, p50 and p99.
func measureStamps(ctx context.Context, o *options) (p50, p99 time.Duration, err error) {
	self, err := os.Executable()
	if err != nil {
		return 0, 0, err
	}
	k := &kind{stampRole, "", "m", func(s *server, o *options) error {
		return s.beginFrontend(o.program, func(etcd, nats string) error {
			_, err := s.launch(true, self, stampRole, etcd, nats)
			return err
		})
	}}
	s, err := startServer(ctx, o, k, false)
	if err != nil {
		return 0, 0, err
	}
	defer s.stop()
	const tokens, warm = 100, 20
	var mu sync.Mutex
	var took []time.Duration
	err = atOnce(ctx, o.stamped, o.stamped, func(ctx context.Context, c *http.Client) error {
		var own []time.Duration
		_, err := s.readEvents(ctx, c, s.body(tokens, true), func(data []byte) {
			now := readClock()
			if at, ok := tokenOf(data); ok {
				own = append(own, time.Duration(now-at)*time.Microsecond)
			}
		})
		mu.Lock()
		defer mu.Unlock()
		took = append(took, own[min(warm, len(own)):]...) // without the first tokens, when not all streams have begun
		return err
	})
	if err == nil && len(took) == 0 {
		err = errors.New("no event has had token_ids")
	}
	if err != nil {
		return 0, 0, err
	}
	slices.Sort(took)
	return took[len(took)/2], took[len(took)*99/100], nil
}

// tokenOf returns the first token id of an event.
func tokenOf(data []byte) (uint32, bool) {
	_, rest, ok := bytes.Cut(data, []byte(`"token_ids":[`))
	digits, _, _ := bytes.Cut(rest, []byte("]"))
	n, err := strconv.ParseUint(string(digits), 10, 32)
	return uint32(n), ok && err == nil
}
