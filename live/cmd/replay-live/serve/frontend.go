package serve

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/live/cmd/replay-live/cluster"
	"github.com/replay-llm/replay/live/cmd/replay-live/serving"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/frontend"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/live/link"
	"github.com/replay-llm/replay/live/mocker"

	routes "github.com/replay-llm/replay/live/route"
	"github.com/replay-llm/replay/live/telemetry"
	"github.com/replay-llm/replay/loadgen/tokenizer"
	"github.com/replay-llm/replay/router"
	"github.com/replay-llm/replay/router/policy"
)

// frontendFlags are the flags of frontend.
type frontendFlags struct {
	o       options.Options // flags of the router
	runtime options.RuntimeFlags

	host                  string
	port                  int
	mode                  cli.Choice
	namespace             string // namespace of the workers; "": any
	model                 string // model name for static discovery
	tokenizer             string // path of a tokenizer.json
	migrations            int
	inactivity, heartbeat time.Duration
	limits                frontend.Config
	publishers            kvevents.Limits
	grace                 time.Duration
	untilEOF              bool
}

// NewFrontendCommand returns the command that serves models over HTTP.
func NewFrontendCommand(s cli.Streams) *cobra.Command {
	f := &frontendFlags{}
	cmd := &cobra.Command{
		Use:   "frontend",
		Short: "Serve the models of a cluster over HTTP",
		Long: `Frontend answers POST /v1/completions and /v1/chat/completions, whole or as a
stream of events, and GET /v1/models, /health, /live and /metrics. It finds
models and workers in etcd, and sends requests over NATS.

A prompt of token ids is used unchanged. The tokens of a text are estimated as
for English text, or counted with --tokenizer. Answers are words of one token
each. Each parameter of a request is supported or rejected. A request is
cancelled when its client disconnects. The port has no authentication, so it
listens on loopback unless --http-host has another address.

It prints one line of JSON with its address and serves until SIGINT or SIGTERM;
then it takes no more requests, waits up to --grace for those in flight, and
ends with exit code 0.`,
		Example: `  replay frontend --etcd http://127.0.0.1:2379 --nats nats://127.0.0.1:4222
  replay frontend --http-port 0 --router kv --migration-limit 3`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := options.OnlyCalls(cmd.Flags()); err != nil {
				return err
			}
			runtime, o, err := f.readConfig()
			if err != nil {
				return err
			}
			return f.run(cmd.Context(), s, runtime, o)
		},
	}
	f.o.Flags.Bind(cmd,
		cli.NewGroup("Frontend", f.bindFrontend, "http-host", "http-port", "namespace", "router", "migration-limit", "stream-timeout", "tokenizer", "max-in-flight", "max-body", "grace"),
		cli.NewGroup("KV router (these override --router-config)", f.o.Router.Bind).Rare(),
		cli.NewGroup("Cluster", f.runtime.Bind, "etcd", "nats"))
	return cli.Alias(cmd, map[string]string{"host": "http-host", "port": "http-port", "model": "static-model"})
}

func (f *frontendFlags) bindFrontend(fs *pflag.FlagSet) {
	f.mode = options.RouterChoice()
	f.mode.Names = slices.DeleteFunc(f.mode.Names, func(name string) bool { return policy.Name(name).Info().Prompts }) // the frontend keeps no prompts
	fs.StringVar(&f.host, "http-host", "127.0.0.1", "`address` to listen at")
	fs.IntVar(&f.port, "http-port", 8000, "`port` to listen at; 0: any free port")
	fs.StringVar(&f.namespace, "namespace", "", "`name` of the namespace of the workers (default: any)")
	fs.Var(&f.mode, "router", "routing policy, by `name`: "+cli.Either(f.mode.Names))
	fs.IntVar(&f.migrations, "migration-limit", 0, "maximum `number` of times that a request continues at another worker after its worker failed")
	fs.DurationVar(&f.inactivity, "stream-timeout", 0, "maximum `time` between two messages of a worker for a request; 0: no limit")
	fs.Lookup("stream-timeout").DefValue = "$DYN_HTTP_BACKEND_STREAM_TIMEOUT_SECS, or any"
	fs.DurationVar(&f.heartbeat, "heartbeat", 10*time.Second, "`time` after which a worker without output sends a heartbeat; a worker counts as failed after 4.5 times this time without a message")
	fs.StringVar(&f.model, "static-model", mocker.DefaultModel, "with --discovery static: `name` of the model that the workers serve")
	fs.StringVar(&f.tokenizer, "tokenizer", "", "tokenizer.json `FILE` that tokenizes the text of prompts")
	fs.IntVar(&f.limits.MaxInFlight, "max-in-flight", 0, "maximum `number` of requests that are served at once; more requests wait in a queue; 0: no limit")
	fs.IntVar(&f.limits.MaxQueued, "max-queued", 1024, "maximum `number` of queued requests; more requests get status 429")
	fs.DurationVar(&f.limits.QueueTimeout, "queue-timeout", 30*time.Second, "maximum `time` that a request is queued; then it gets status 503")
	fs.IntVar(&f.limits.MaxBody, "max-body", 8<<20, "maximum size of a request body in `bytes`; longer bodies get status 413")
	fs.IntVar(&f.limits.MaxPending, "max-pending", 64<<20, "maximum size of the bodies of all requests in flight in `bytes`; more requests get status 503")
	fs.IntVar(&f.limits.MaxConnections, "max-connections", 16384, "maximum `number` of connections; more connections wait")
	fs.DurationVar(&f.limits.ReadHeader, "header-timeout", 10*time.Second, "maximum `time` that a client may take to send the headers of a request")
	fs.DurationVar(&f.limits.ReadBody, "body-timeout", 30*time.Second, "maximum `time` that a client may take to send the body of a request")
	fs.DurationVar(&f.limits.Write, "write-timeout", 30*time.Second, "maximum `time` that a client may take to accept a part of an answer")
	fs.DurationVar(&f.limits.Idle, "idle-timeout", time.Minute, "maximum `time` that a connection is open without a request")
	fs.IntVar(&f.publishers.Blocks, "kv-max-blocks", 1<<20, "maximum `number` of blocks in the KV events of one worker; a worker with more blocks is dropped")
	fs.IntVar(&f.publishers.Rate, "kv-max-rate", 500_000, "maximum `number` of blocks and events per second in the KV events of one worker; bursts of up to ten times this number are accepted")
	fs.DurationVar(&f.grace, "grace", 10*time.Second, "maximum `time` to wait for requests in flight at shutdown")
	fs.BoolVar(&f.untilEOF, "until-eof", false, "also shut down when standard input ends")
	cli.BindLogFormat(fs)
}

// readConfig converts the flags to a configuration, and checks them.
func (f *frontendFlags) readConfig() (drt.Config, routes.Options, error) {
	var o routes.Options
	l := &f.limits
	const wantTime = "a time above 0"
	if err := f.o.Check(
		inRange("http-port", f.port, 0, 65535), inRange("migration-limit", f.migrations, 0, 1000),
		cli.Wants(f.heartbeat >= 100*time.Millisecond && f.heartbeat <= time.Minute, "heartbeat", "100ms to 1m"),
		inRange("max-body", l.MaxBody, 1, 1<<30), inRange("max-pending", l.MaxPending, l.MaxBody, 1<<40),
		inRange("kv-max-blocks", f.publishers.Blocks, 1, 1<<30), inRange("kv-max-rate", f.publishers.Rate, 1, 1<<30),
		inRange("max-connections", l.MaxConnections, 1, 1<<20), inRange("max-in-flight", l.MaxInFlight, 0, 1<<20),
		inRange("max-queued", l.MaxQueued, 0, 1<<20), cli.Wants(l.QueueTimeout > 0, "queue-timeout", wantTime),
		cli.Needs(l.MaxInFlight > 0, "with --max-in-flight", "max-queued", "queue-timeout"),
		cli.Wants(l.ReadHeader > 0, "header-timeout", wantTime), cli.Wants(l.ReadBody > 0, "body-timeout", wantTime),
		cli.Wants(l.Write > 0, "write-timeout", wantTime), cli.Wants(l.Idle > 0, "idle-timeout", wantTime),
		cli.Needs(policy.Name(f.mode.Value).Info().Caches, "with --router kv", append(options.RouterFlags(), "router-config")...),
	); err != nil {
		return drt.Config{}, o, err
	}
	config, err := f.o.RouterConfig()
	if err != nil {
		return drt.Config{}, o, err
	}
	tokenize, err := loadTokenizer(f.tokenizer)
	if err != nil {
		return drt.Config{}, o, err
	}
	f.limits.Tokenize = tokenize
	o = routes.Options{Policy: policy.Name(f.mode.Value), Router: router.DefaultConfig(), Migrations: f.migrations, Namespace: f.namespace}
	if config != nil {
		o.Router = *config
	}
	runtime, err := cluster.Config(&f.runtime)
	if err != nil {
		return runtime, o, err
	}
	if err := runtime.Links.Check("--http-host", f.host); err != nil {
		return runtime, o, cli.Usagef("%v", err)
	}
	if l.MaxInFlight == 0 {
		l.MaxQueued = 0
	}
	if f.o.Changed("static-model") && runtime.Discovery != drt.Static {
		return runtime, o, cli.Usagef("--static-model requires --discovery static")
	}
	if len(runtime.Static) == 0 {
		err = cluster.GiveCards(&runtime, f.model, "dynamo.backend.generate")
	} else {
		err = cluster.GiveCards(&runtime, f.model)
	}
	runtime.Heartbeat = f.heartbeat
	if f.o.Changed("stream-timeout") {
		runtime.Inactivity = f.inactivity
	}
	return runtime, o, err
}

// loadTokenizer returns a function that splits texts with a tokenizer.json; nil for no file. loadTokenizer may be
// called concurrently.
func loadTokenizer(file string) (func(text string) []uint32, error) {
	if file == "" {
		return nil, nil
	}
	t, err := tokenizer.Load(file)
	if err != nil {
		return nil, fmt.Errorf("--tokenizer: %w", err)
	}
	var mu sync.Mutex
	return func(text string) []uint32 {
		mu.Lock()
		defer mu.Unlock()
		return t.Append(nil, text)
	}, nil
}

// run serves until ctx ends, or with --until-eof until standard input ends.
func (f *frontendFlags) run(ctx context.Context, s cli.Streams, config drt.Config, o routes.Options) (err error) {
	ctx, end := serving.Begin(ctx, s, f.untilEOF)
	defer end()
	log := serving.NewLog(s)
	config.Log, config.CallsOnly = log, true
	rt, err := drt.Connect(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, closeRuntime(rt)) }()
	tracing, err := telemetry.Open(ctx, os.Getenv)
	if err != nil {
		return err
	}
	defer func() {
		sent, release := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
		defer release()
		err = errors.Join(err, tracing.Close(sent))
	}()
	o.Tracing, f.limits.Tracing = tracing, tracing
	metrics := telemetry.NewMetrics()
	rt.Links().SetWatch(link.Watch{Count: metrics.Refusals(), Warn: func(text string) { log.Warn(text) }})
	requests := metrics.Requests()
	o.Warn = func(text string) { log.Warn(text) }
	o.Publishers, o.CutOff, o.Dial = f.publishers, metrics.CutOffs(), rt.Links().DialPlain
	o.Metrics = func(n drt.Name) *telemetry.Client {
		return metrics.Client(telemetry.Name{Namespace: n.Namespace, Component: n.Component, Endpoint: n.Endpoint})
	}
	catalog, err := routes.Follow(ctx, rt, o, func(model string) { requests.Known(model, "completions", "chat_completions") })
	if err != nil {
		return err
	}
	defer catalog.Close()
	f.limits.Models, f.limits.Metrics, f.limits.SlowReader = catalog, requests, metrics.SlowReaders()
	f.limits.Expose, f.limits.Log, f.limits.Stale = metrics.Handler(), log, rt.StaleSince
	metrics.Stale(func() time.Duration { return sinceStale(rt) })
	l, ask, err := rt.Links().ForUsers().HTTP("--http-host", net.JoinHostPort(f.host, strconv.Itoa(f.port)), serving.Probes()...)
	if err != nil {
		return err
	}
	f.limits.Wrap = ask
	server, err := frontend.New(f.limits)
	if err != nil {
		return errors.Join(err, l.Close())
	}
	if err = serving.Announce(s, l); err == nil {
		err = serving.Run(ctx, rt.Done(), server, l, f.grace)
	}
	return errors.Join(rt.Err(), err)
}

// sinceStale returns how long the data of rt has been out of date; 0 if it is up to date.
func sinceStale(rt *drt.Runtime) time.Duration {
	if since := rt.StaleSince(); !since.IsZero() {
		return time.Since(since)
	}
	return 0
}

// closeRuntime closes rt within 5 s.
func closeRuntime(rt *drt.Runtime) error {
	ctx, release := context.WithTimeout(context.Background(), 5*time.Second)
	defer release()
	return rt.Close(ctx)
}

// inRange returns the rule for a flag with a number from least to most.
func inRange(name string, value, least, most int) cli.Rule {
	return cli.Wants(value >= least && value <= most, name, fmt.Sprintf("%d to %d", least, most))
}
