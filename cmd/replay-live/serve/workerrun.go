package serve

import (
	"context"
	"github.com/goccy/go-json"
	"io"
	"log/slog"
	"strconv"

	"github.com/replay-llm/replay/cmd/internal/cli"

	served "github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/mocker"
	"github.com/replay-llm/replay/live/rendezvous"
	"github.com/replay-llm/replay/live/telemetry"
)

// run serves until ctx ends, or standard input if that was asked for.
func (w *worker) run(ctx context.Context, s cli.Streams) error {
	s.EndInOwnTime()
	if w.flags.untilEOF {
		var end context.CancelFunc
		ctx, end = context.WithCancel(ctx)
		defer end()
		go func() {
			_, _ = io.Copy(io.Discard, s.In)
			end()
		}()
	}
	log := slog.New(telemetry.LogHandler(slog.NewTextHandler(s.Err, &slog.HandlerOptions{Level: slog.LevelWarn})))
	w.config.Log = log
	w.mock.Warn = func(text string) { log.Warn(text) }
	w.openEvents()
	w.openMeeting()
	mock, err := mocker.New(w.mock)
	if err != nil {
		return err
	}
	w.config.Ready = func(r served.Ready) { _ = json.NewEncoder(s.Out).Encode(w.readyLine(r, mock)) }
	worker, err := served.NewWorker(mock, w.config)
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

// openEvents opens where the mocker publishes KV events.
func (w *worker) openEvents() {
	f, a := w.flags, &w.mock.Engine
	if !f.publishesEvents(w.config.Mode) {
		a.KVEventsPort, a.ReplayPort = 0, 0
		return
	}
	w.mock.KVHost = f.kvHost
	if f.kvPort != 0 {
		a.KVEventsPort = uint16(f.kvPort)
	}
	if f.kvReplay != 0 {
		a.ReplayPort = uint16(f.kvReplay)
	}
}

// openMeeting opens where decode workers meet a prefill worker.
func (w *worker) openMeeting() {
	f := w.flags
	w.mock.Rendezvous = rendezvous.Limits{Wait: f.meetLimit}
	if w.config.Mode != served.Prefill || !f.bootstrap {
		return
	}
	w.mock.BootstrapHost = f.bootstrapHost
	if f.bootstrapPort != 0 {
		w.mock.Engine.BootstrapPort = uint16(f.bootstrapPort)
	}
}

// workerLine is what a worker prints when it can be found.
type workerLine struct {
	Endpoint string `json:"endpoint"`
	Instance string `json:"instance"`
	Mode     string `json:"mode"`
	Model    string `json:"model"`
	System   string `json:"system,omitempty"` // where /metrics, /health and /live are
	// Where KV events are published, and where to ask for what was missed.
	KVEvents string `json:"kv_events,omitempty"`
	KVReplay string `json:"kv_replay,omitempty"`
}

func (w *worker) readyLine(r served.Ready, mock *mocker.Engine) workerLine {
	events := mock.Source()
	return workerLine{
		Endpoint: r.Endpoint.String(), Instance: strconv.FormatUint(r.WorkerID, 16), Mode: string(w.mock.Mode),
		Model: w.mock.Model, System: r.System, KVEvents: events.Events, KVReplay: events.Replay,
	}
}
