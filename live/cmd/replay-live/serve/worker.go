package serve

import (
	"cmp"
	"context"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/cmd/replay-live/cluster"
	"github.com/replay-llm/replay/live/cmd/replay-live/serving"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/eventplane"
	"github.com/replay-llm/replay/live/kvevents"
	"github.com/replay-llm/replay/live/kvevents/zmtp"
	"github.com/replay-llm/replay/live/link"

	served "github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/mocker"
	"github.com/replay-llm/replay/replay/engineargs"
)

// worker is the configuration of a worker from its flags.
type worker struct {
	o       options.Options // flags of the engine
	runtime options.RuntimeFlags
	config  served.WorkerConfig
	mock    mocker.Options

	mode, leaseLoss, precise, plane, layout cli.Choice

	bootstrap                       bool
	bootstrapHost                   string
	bootstrapPort, kvPort, kvReplay int
	ranks                           int

	kvEvents, untilEOF  bool
	kvHost              string
	systemHost          string
	systemPort          int
	grace, shutdownTime time.Duration
}

// NewWorkerCommand returns the command that serves a simulated engine as a worker.
func NewWorkerCommand(s cli.Streams) *cobra.Command {
	w := &worker{}
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Serve a simulated engine as a worker process of a cluster",
		Long: `Worker serves a mocker: an engine without a model. Its scheduler is simulated
in real time, with real batching, KV cache, preemption and KV events. It
registers at etcd under a lease, takes requests over NATS and answers over TCP.

It prints one line of JSON when it is registered, and serves until SIGINT or
SIGTERM: then it leaves discovery, serves for --grace, completes requests in
flight, and ends with exit code 0.

KV events are published over ZeroMQ, at the address in the worker's model card.
The KV router of frontend and replay (--router kv) reads them.`,
		Example: `  replay worker --etcd http://127.0.0.1:2379 --nats nats://127.0.0.1:4222
  replay worker --disaggregation-mode prefill --num-gpu-blocks 4096
  replay worker --engine sglang --speedup-ratio 10 --system-port 0`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := w.readConfig(); err != nil {
				return err
			}
			return w.run(cmd.Context(), s)
		},
	}
	w.o.Flags.Bind(cmd,
		cli.NewGroup("Worker", w.bindWorker, "namespace", "component", "model-name", "system-port"),
		cli.NewGroup("Engine (these override --engine-args)", w.bindEngine, "gpu", "model", "tp", "engine", "num-gpu-blocks", "speedup-ratio"),
		cli.NewGroup("Prefill and decode", w.bindPair, "disaggregation-mode"),
		cli.NewGroup("KV events", w.bindEvents, "kv-events"),
		cli.NewGroup("Cluster", w.runtime.Bind, "etcd", "nats"))
	return cli.Alias(cmd, map[string]string{"served-model-name": "model-name"})
}

func (w *worker) bindWorker(fs *pflag.FlagSet) {
	w.mode = cli.Choice{Names: []string{"agg", "prefill", "decode"}, Hidden: []string{"aggregated"}, Value: "agg"}
	w.leaseLoss = cli.Choice{Names: []string{"exit", "reregister"}, Value: "reregister"}
	w.precise = cli.Choice{Names: []string{"timer", "spin"}, Value: "timer"}
	fs.StringVar(&w.config.Namespace, "namespace", "dynamo", "`name` of the namespace")
	fs.StringVar(&w.config.Component, "component", "", "`name` of the component")
	fs.Lookup("component").DefValue = "prefill for prefill workers, else backend"
	fs.StringVar(&w.config.Endpoint, "endpoint", "generate", "`name` of the endpoint")
	fs.StringVar(&w.mock.Model, "model-name", mocker.DefaultModel, "`name` of the model in requests")
	fs.StringVar(&w.config.ModelPath, "model-path", "", "`DIR` with config.json and tokenizer.json of the model, for frontends that tokenize texts")
	fs.StringVar(&w.config.EndpointTypes, "endpoint-types", "chat,completions", "comma-separated `kinds` of requests that the worker serves: chat, completions")
	fs.IntVar(&w.mock.ContextLength, "context-length", 8192, "maximum number of `tokens` of a prompt")
	fs.StringVar(&w.systemHost, "system-host", "", "`address` to listen at for /metrics, /health and /live")
	fs.Lookup("system-host").DefValue = "$DYN_SYSTEM_HOST, or 127.0.0.1"
	fs.IntVar(&w.systemPort, "system-port", -1, "`port` of /metrics, /health and /live; 0: any free port; -1: disabled")
	fs.Lookup("system-port").DefValue = "$DYN_SYSTEM_PORT, or -1"
	fs.DurationVar(&w.grace, "grace", 5*time.Second, "`time` that the worker serves after it has left discovery, at shutdown")
	fs.Lookup("grace").DefValue = "$DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS, or 5s"
	fs.DurationVar(&w.shutdownTime, "shutdown-timeout", 30*time.Second, "maximum `time` of the shutdown after --grace; then the worker exits with code 143")
	fs.Lookup("shutdown-timeout").DefValue = "$DYN_WORKER_GRACEFUL_SHUTDOWN_TIMEOUT, or 30s"
	fs.DurationVar(&w.config.CanaryAfter, "canary-after", 10*time.Second, "`time` without a successful answer after which a health check is sent")
	fs.IntVar(&w.ranks, "data-parallel-size", 1, "`number` of data-parallel ranks, each with a scheduler and a KV cache; each further rank uses the next ports for KV events")
	fs.Var(&w.leaseLoss, "lease-loss", "action when the lease is lost, by `name`: exit, or reregister (continue to serve under the same id)")
	fs.BoolVar(&w.config.WorkerLabel, "metrics-worker-label", false, "add a label with the id of the worker to its metrics")
	fs.BoolVar(&w.untilEOF, "until-eof", false, "also shut down when standard input ends")
	cli.BindLogFormat(fs)
	fs.Var(&w.precise, "precise", "how passes wait, by `name`: timer, or spin (polls the clock at the end of a wait; takes one processor)")
}

// bindEngine adds the engine's flags, except those for clusters on a logical clock only.
func (w *worker) bindEngine(fs *pflag.FlagSet) {
	bindEngineFlags(&w.o, fs, "", "startup-time")
}

func (w *worker) bindPair(fs *pflag.FlagSet) {
	fs.Var(&w.mode, "disaggregation-mode", "role of the worker, by `name`: agg (both), prefill or decode")
	fs.BoolVar(&w.bootstrap, "bootstrap", true, "prefill workers listen for decode workers, so that both get a request at the same time")
	fs.StringVar(&w.bootstrapHost, "bootstrap-host", "127.0.0.1", "`address` at which prefill workers listen for decode workers")
	fs.IntVar(&w.bootstrapPort, "bootstrap-port", 0, "`port` at which prefill workers listen for decode workers; 0: any free port")
	fs.DurationVar(&w.mock.Rendezvous.Wait, "bootstrap-timeout", 30*time.Second, "maximum `time` to wait for the other worker of a request")
}

func (w *worker) bindEvents(fs *pflag.FlagSet) {
	fs.BoolVar(&w.kvEvents, "kv-events", true, "publish KV events; =false disables it")
	fs.StringVar(&w.kvHost, "kv-events-host", "127.0.0.1", "`address` at which subscribers of KV events connect")
	fs.IntVar(&w.kvPort, "kv-events-port", 0, "`port` of KV events; 0: zmq_kv_events_port of --engine-args, or any free port")
	w.layout = cli.Choice{Names: kvevents.Layouts(), Value: kvevents.OwnLayout.String()}
	fs.Var(&w.layout, "kv-events-layout", "layout of KV events, by `name`: own (with snapshots), or the first vLLM release that has the layout")
	w.plane = cli.Choice{Names: []string{"both", "nats", "zmq", "none"}, Value: "none"}
	fs.Var(&w.plane, "event-plane", "transport of KV events for the KV router of the published Dynamo package, by `name`: nats, zmq, both or none")
	fs.Lookup("event-plane").DefValue = "$DYN_EVENT_PLANE, or both, with --model-path; else none"
	fs.IntVar(&w.kvReplay, "kv-replay-port", 0, "`port` at which subscribers request missed events; 0: zmq_replay_port of --engine-args, or any free port")
}

// readConfig converts the flags to a configuration, and checks them.
func (w *worker) readConfig() error {
	mode, err := served.ParseMode(w.mode.Value)
	if err != nil {
		return err
	}
	w.config.Mode, w.mock.Mode = mode, mode
	if err := w.checkFlags(); err != nil {
		return err
	}
	runtime, err := cluster.Config(&w.runtime)
	if err != nil {
		return err
	}
	runtime.LeaseLoss = drt.LeaseLoss(w.leaseLoss.Value)
	w.mock.Rendezvous.Links = runtime.Links
	if err := w.checkListeners(runtime.Links); err != nil {
		return err
	}
	w.o.Cluster.Half = mode != served.Aggregated
	p := options.Pool{Flag: "engine-args", Role: mode.Role()}
	if err := w.o.ParseEngine(&p); err != nil {
		return err
	}
	if err := w.o.CheckEngines([]options.Pool{p}); err != nil {
		return err
	}
	w.mock.Engine, w.mock.Precise = *p.Args, w.precise.Value == "spin"
	if err := w.openEvents(runtime.Links.Insecure()); err != nil {
		return err
	}
	c := &w.config
	if c.Component == "" {
		c.Component = "backend"
		if mode == served.Prefill {
			c.Component = "prefill"
		}
	}
	if err := cluster.OwnInstance(&runtime, c.Namespace+"."+c.Component+"."+c.Endpoint); err != nil {
		return err
	}
	c.NoKVRouting, c.Runtime, c.Getenv = !w.publishesEvents(), &runtime, w.lookupEnv
	if err := w.choosePlane(runtime.Discovery); err != nil {
		return err
	}
	c.Signals = make(chan os.Signal) // the command's context handles signals
	if _, err := served.NewWorker(nil, *c); err != nil {
		return cli.Usagef("%v", err)
	}
	return nil
}

// checkListeners returns an error if a listener would accept peers outside loopback without authentication.
func (w *worker) checkListeners(links *link.Links) (err error) {
	if w.config.Mode == served.Prefill && w.bootstrap {
		err = links.Check("--bootstrap-host: rendezvous", w.bootstrapHost)
	}
	if host := w.lookupEnv("DYN_SYSTEM_HOST"); err == nil && host != "" && !strings.HasPrefix(cmp.Or(w.lookupEnv("DYN_SYSTEM_PORT"), "-1"), "-") {
		err = links.Check("--system-host: metrics and controls", host)
	}
	if err == nil && w.publishesEvents() {
		err = zmtp.Listener{Endpoint: "tcp://" + net.JoinHostPort(w.kvHost, "0"), Insecure: links.Insecure()}.Check()
	}
	if err != nil {
		return cli.Usagef("%v", err)
	}
	return nil
}

// checkFlags rejects flags that are out of range or have no effect.
func (w *worker) checkFlags() error {
	mode := w.config.Mode
	return w.o.Check(
		inRange("context-length", w.mock.ContextLength, 1, 1<<30), inRange("data-parallel-size", w.ranks, 1, 1024), inRange("system-port", w.systemPort, -1, 65535),
		inRange("bootstrap-port", w.bootstrapPort, 0, 65535), inRange("kv-events-port", w.kvPort, 0, 65535), inRange("kv-replay-port", w.kvReplay, 0, 65535),
		cli.Needs(mode == served.Prefill, "with --disaggregation-mode prefill", "bootstrap", "bootstrap-host", "bootstrap-port"),
		cli.Needs(mode != served.Aggregated, "with --disaggregation-mode prefill or decode", "bootstrap-timeout"),
		cli.Needs(mode != served.Decode, "with --disaggregation-mode agg or prefill", "kv-events", "kv-events-host", "kv-events-port", "kv-events-layout", "kv-replay-port", "event-plane"),
		cli.Needs(w.kvEvents, "with KV events", "kv-events-host", "kv-events-port", "kv-events-layout", "kv-replay-port", "event-plane"),
		cli.Needs(w.config.ModelPath != "", "with --model-path", "event-plane"),
		cli.Needs(w.bootstrap, "with --bootstrap", "bootstrap-host", "bootstrap-port", "bootstrap-timeout"),
		cli.Wants(w.mock.Rendezvous.Wait > 0, "bootstrap-timeout", "a time above 0"))
}

// publishesEvents reports whether the worker publishes KV events. Decode workers do not, because routers use the
// events of workers that prefill.
func (w *worker) publishesEvents() bool {
	return w.kvEvents && w.config.Mode != served.Decode
}

// lookupEnv returns an environment variable, or the flag that overrides it.
func (w *worker) lookupEnv(name string) string {
	seconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
	switch {
	case name == "DYN_SYSTEM_PORT" && w.o.Changed("system-port"):
		return strconv.Itoa(w.systemPort)
	case name == "DYN_SYSTEM_HOST" && w.systemHost != "":
		return w.systemHost
	case name == "DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS" && w.o.Changed("grace"):
		return seconds(w.grace)
	case name == "DYN_WORKER_GRACEFUL_SHUTDOWN_TIMEOUT" && w.o.Changed("shutdown-timeout"):
		return seconds(w.shutdownTime)
	}
	return os.Getenv(name)
}

// run serves until ctx ends, or with --until-eof until standard input ends.
func (w *worker) run(ctx context.Context, s cli.Streams) error {
	ctx, end := serving.Begin(ctx, s, w.untilEOF)
	defer end()
	log := serving.NewLog(s)
	w.config.Log = log
	w.mock.Warn = func(text string) { log.Warn(text) }
	w.openMeeting()
	mock, err := mocker.NewRanks(w.mock, w.ranks)
	if err != nil {
		return err
	}
	w.config.Ready = func(r served.Ready) error { return json.NewEncoder(s.Out).Encode(w.readyLine(r, mock)) }
	worker, err := served.NewWorker(mock, w.config)
	if err != nil {
		return err
	}
	return worker.Run(ctx)
}

// openEvents configures the sockets of the mocker for KV events.
func (w *worker) openEvents(insecure bool) error {
	a := &w.mock.Engine
	if !w.publishesEvents() {
		a.KVEventsPort, a.ReplayPort = 0, 0
		return nil
	}
	at := func(port int, other uint16) string {
		return "tcp://" + net.JoinHostPort(w.kvHost, strconv.Itoa(cmp.Or(port, int(other))))
	}
	w.mock.KVSockets = &kvevents.TeeOptions{
		Events: at(w.kvPort, a.KVEventsPort), Replay: at(w.kvReplay, a.ReplayPort), Insecure: insecure,
		Layout: kvevents.Layout(slices.Index(kvevents.Layouts(), w.layout.Value)), HashBytes: hashBytes(),
	}
	if w.mock.KVSockets.Layout != kvevents.OwnLayout && a.Engine != engineargs.VLLM {
		return cli.Usagef("--kv-events-layout=%s: only with --engine vllm", w.layout.Value)
	}
	if err := w.mock.KVSockets.CheckPorts(w.ranks); err != nil {
		return cli.Usagef("--data-parallel-size: %v", err)
	}
	return nil
}

// choosePlane configures KV events for the KV router of the published package. That router finds workers by model
// cards with the files of the model.
func (w *worker) choosePlane(discovery drt.Discovery) error {
	plane := w.plane.Value
	if !w.o.Changed("event-plane") {
		if w.config.ModelPath == "" || !w.publishesEvents() || discovery == drt.Static {
			return nil
		}
		plane = cmp.Or(os.Getenv("DYN_EVENT_PLANE"), "both")
		if err := w.plane.Set(plane); err != nil {
			return cli.Usagef("DYN_EVENT_PLANE is %q, must be nats or zmq", plane)
		}
	}
	if plane == "none" {
		return nil
	}
	if discovery == drt.Static {
		return cli.Usagef("--event-plane is not supported with --discovery static")
	}
	w.config.Publish = eventplane.Bind(eventplane.Options{
		NATS: plane != "zmq", ZMQ: plane != "nats", Host: w.kvHost, Insecure: w.mock.KVSockets.Insecure,
		Warn: func(text string) { w.config.Log.Warn(text) },
	})
	return nil
}

// openMeeting configures the address at which decode workers connect to a prefill worker.
func (w *worker) openMeeting() {
	if w.config.Mode != served.Prefill || !w.bootstrap {
		return
	}
	a := &w.mock.Engine
	w.mock.BootstrapHost, a.BootstrapPort = w.bootstrapHost, cmp.Or(uint16(w.bootstrapPort), a.BootstrapPort)
}

// workerLine is the line that a worker prints when it is registered.
type workerLine struct {
	Endpoint string `json:"endpoint"`
	Instance string `json:"instance"`
	Mode     string `json:"mode"`
	Model    string `json:"model"`
	System   string `json:"system,omitempty"` // address of /metrics, /health and /live
	// Endpoints of the first rank's KV events, and of requests for missed events.
	KVEvents string            `json:"kv_events,omitempty"`
	KVReplay string            `json:"kv_replay,omitempty"`
	Ranks    []kvevents.Source `json:"kv_ranks,omitempty"` // endpoints of all ranks, if there are several
}

func (w *worker) readyLine(r served.Ready, mock *mocker.Ranks) workerLine {
	line := workerLine{
		Endpoint: r.Endpoint.String(), Instance: strconv.FormatUint(r.WorkerID, 16), Mode: string(w.mock.Mode),
		Model: w.mock.Model, System: r.System,
	}
	if all := mock.Sources(); len(all) > 0 {
		line.KVEvents, line.KVReplay = all[0].Events, all[0].Replay
		if len(all) > 1 {
			line.Ranks = all
		}
	}
	return line
}
