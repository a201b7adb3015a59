package serve

import (
	"fmt"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
	"github.com/replay-llm/replay/cmd/internal/options"
	"github.com/replay-llm/replay/cmd/replay-live/cluster"
	"github.com/replay-llm/replay/live/drt"

	served "github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/mocker"
	"github.com/replay-llm/replay/scheduler"
)

// workerFlags say what a worker serves and where.
type workerFlags struct {
	o       options.Options // of the engine
	runtime options.RuntimeFlags

	namespace, component, endpoint string
	modelName, types               string
	contextLength                  int
	mode                           cli.Choice
	leaseLoss                      cli.Choice
	precise                        cli.Choice

	bootstrap     bool
	bootstrapHost string
	bootstrapPort int
	meetLimit     time.Duration

	kvEvents                  bool
	kvHost                    string
	kvPort, kvReplay          int
	systemPort                int
	grace                     time.Duration
	untilEOF, workerLabel     bool
	canaryAfter, shutdownTime time.Duration
}

// NewWorkerCommand makes the command that serves a simulated engine.
func NewWorkerCommand(s cli.Streams) *cobra.Command {
	f := &workerFlags{}
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Serve a simulated engine as a worker process of a cluster",
		Long: `Worker serves a mocker: an engine without a model, whose scheduler is simulated
in real time, with real batching, KV cache, preemption and KV events. It registers
at etcd under a lease, takes requests over NATS and answers over TCP.

It prints one line of JSON once it can be found, and serves until SIGINT or
SIGTERM: then it leaves discovery, serves on for --grace, lets requests under way
end, and ends with exit code 0.

KV events are published on sockets of ZeroMQ and told in the worker's model card;
--router kv of frontend and replay follow them.`,
		Example: `  replay worker --etcd http://127.0.0.1:2379 --nats nats://127.0.0.1:4222
  replay worker --disaggregation-mode prefill --num-gpu-blocks 4096
  replay worker --engine sglang --speedup-ratio 10 --system-port 0`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			w, err := f.makeWorker()
			if err != nil {
				return err
			}
			return w.run(cmd.Context(), s)
		},
	}
	f.bindFlags(cmd)
	return cmd
}

func (f *workerFlags) bindFlags(cmd *cobra.Command) {
	f.o.Flags.Bind(cmd,
		cli.NewGroup("Worker", f.bindWorker),
		cli.NewGroup("Engine (these win over --engine-args)", f.bindEngine),
		cli.NewGroup("Prefill and decode", f.bindPair),
		cli.NewGroup("KV events", f.bindEvents),
		cli.NewGroup("Cluster", f.runtime.Bind))
}

func (f *workerFlags) bindWorker(fs *pflag.FlagSet) {
	f.mode = cli.Choice{Names: []string{"agg", "prefill", "decode"}, Hidden: []string{"aggregated"}, Value: "agg"}
	f.leaseLoss = cli.Choice{Names: []string{"exit", "reregister"}, Value: "exit"}
	f.precise = cli.Choice{Names: []string{"timer", "spin"}, Value: "timer"}
	fs.StringVar(&f.namespace, "namespace", "dynamo", "`name` of the namespace")
	fs.StringVar(&f.component, "component", "", "`name` of the component")
	fs.Lookup("component").DefValue = "prefill for prefill workers, else backend"
	fs.StringVar(&f.endpoint, "endpoint", "generate", "`name` of the endpoint")
	fs.StringVar(&f.modelName, "model-name", mocker.DefaultModel, "`name` of the model that users ask for")
	fs.StringVar(&f.types, "endpoint-types", "chat,completions", "`kinds` of requests it is for, separated by commas")
	fs.IntVar(&f.contextLength, "context-length", 8192, "`tokens` of the longest prompt")
	fs.IntVar(&f.systemPort, "system-port", -1, "`port` of /metrics, /health and /live on this host; 0: any, -1: none")
	fs.Lookup("system-port").DefValue = "$DYN_SYSTEM_PORT, or -1"
	fs.DurationVar(&f.grace, "grace", 5*time.Second, "`time` to serve on after it has left discovery")
	fs.Lookup("grace").DefValue = "$DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS, or 5s"
	fs.DurationVar(&f.shutdownTime, "shutdown-timeout", 30*time.Second, "`time` for all that follows; then it ends with exit code 143")
	fs.Lookup("shutdown-timeout").DefValue = "$DYN_WORKER_GRACEFUL_SHUTDOWN_TIMEOUT, or 30s"
	fs.DurationVar(&f.canaryAfter, "canary-after", 10*time.Second, "`time` without a good response before a request is made to see whether it is well")
	fs.Var(&f.leaseLoss, "lease-loss", "what to do when the lease is lost, by `name`: exit, or reregister under another id")
	fs.BoolVar(&f.workerLabel, "metrics-worker-label", false, "tell the worker's id in its metrics")
	fs.BoolVar(&f.untilEOF, "until-eof", false, "end, in good order, when standard input ends too")
	fs.Var(&f.precise, "precise", "how passes wait, by `name`: timer, or spin, which looks at the clock in the end and takes a processor")
}

// bindEngine adds the engine's flags, but for those that only clusters on a
// logical clock have.
func (f *workerFlags) bindEngine(fs *pflag.FlagSet) {
	fs.String("engine-args", "", "engine arguments: a `JSON` object with the keys of the reference, or @file")
	for _, one := range options.EngineSettings() {
		if one.Name != "startup-time" {
			f.o.Engine.Settings = append(f.o.Engine.Settings, one)
		}
	}
	for i := range f.o.Engine.Settings {
		f.o.Engine.Settings[i].Bind(fs)
	}
}

func (f *workerFlags) bindPair(fs *pflag.FlagSet) {
	fs.Var(&f.mode, "disaggregation-mode", "what it does for a request, by `name`: agg (all), prefill or decode")
	fs.BoolVar(&f.bootstrap, "bootstrap", true, "let decode workers meet a prefill worker, so that both get a request at once")
	fs.StringVar(&f.bootstrapHost, "bootstrap-host", "127.0.0.1", "`address` at which decode workers meet it")
	fs.IntVar(&f.bootstrapPort, "bootstrap-port", 0, "`port` there; 0: any")
	fs.DurationVar(&f.meetLimit, "bootstrap-timeout", 30*time.Second, "`time` to wait for the other one")
}

func (f *workerFlags) bindEvents(fs *pflag.FlagSet) {
	fs.BoolVar(&f.kvEvents, "kv-events", true, "publish KV events; =false turns it off")
	fs.StringVar(&f.kvHost, "kv-events-host", "127.0.0.1", "`address` at which subscribers reach it")
	fs.IntVar(&f.kvPort, "kv-events-port", 0, "`port` of events; 0: any, or zmq_kv_events_port of --engine-args")
	fs.IntVar(&f.kvReplay, "kv-replay-port", 0, "`port` at which to ask for what was missed; 0: any, or zmq_replay_port of --engine-args")
}

// worker is a worker that is about to be run.
type worker struct {
	config served.WorkerConfig
	mock   mocker.Options
	flags  *workerFlags
}

// makeWorker turns flags into a worker. All complaints about them are here.
func (f *workerFlags) makeWorker() (*worker, error) {
	mode, err := served.ParseMode(f.mode.Value)
	if err != nil {
		return nil, err
	}
	if err := f.checkFlags(mode); err != nil {
		return nil, err
	}
	runtime, err := cluster.Config(&f.runtime)
	if err != nil {
		return nil, err
	}
	runtime.LeaseLoss = drt.LeaseLoss(f.leaseLoss.Value)
	f.o.Cluster.Half = mode != served.Aggregated
	p := options.Pool{Flag: "engine-args", Role: map[served.Mode]scheduler.Role{
		served.Aggregated: scheduler.Aggregated, served.Prefill: scheduler.Prefill, served.Decode: scheduler.Decode,
	}[mode]}
	if err := f.o.ParseEngine(&p); err != nil {
		return nil, err
	}
	if err := f.o.CheckEngines([]options.Pool{p}); err != nil {
		return nil, err
	}
	if f.component == "" {
		f.component = "backend"
		if mode == served.Prefill {
			f.component = "prefill"
		}
	}
	w := &worker{flags: f, mock: mocker.Options{
		Model: f.modelName, ContextLength: f.contextLength, Engine: *p.Args, Mode: mode, Precise: f.precise.Value == "spin",
	}}
	w.config = served.WorkerConfig{
		Namespace: f.namespace, Component: f.component, Endpoint: f.endpoint, EndpointTypes: f.types,
		Mode: mode, NoKVRouting: !f.publishesEvents(mode), CanaryAfter: f.canaryAfter,
		Runtime: &runtime, WorkerLabel: f.workerLabel, Getenv: f.lookupEnv,
		Signals: make(chan os.Signal), // the command's context knows them
	}
	if _, err := served.NewWorker(nil, w.config); err != nil {
		return nil, cli.Usagef("%v", err)
	}
	return w, nil
}

// checkFlags refuses flags that are out of range or of no effect.
func (f *workerFlags) checkFlags(mode served.Mode) error {
	for _, one := range []struct {
		name        string
		value, most int
		least       int
	}{
		{"context-length", f.contextLength, 1 << 30, 1}, {"system-port", f.systemPort, 65535, -1},
		{"bootstrap-port", f.bootstrapPort, 65535, 0}, {"kv-events-port", f.kvPort, 65535, 0}, {"kv-replay-port", f.kvReplay, 65535, 0},
	} {
		if one.value < one.least || one.value > one.most {
			return f.o.Refuse(one.name, fmt.Sprintf("%d to %d", one.least, one.most))
		}
	}
	if mode != served.Prefill {
		if name := f.o.FirstChanged("bootstrap", "bootstrap-host", "bootstrap-port"); name != "" {
			return f.o.Only(name, "with --disaggregation-mode prefill")
		}
	}
	switch {
	case mode == served.Aggregated && f.o.Changed("bootstrap-timeout"):
		return f.o.Only("bootstrap-timeout", "with --disaggregation-mode prefill or decode")
	case mode == served.Decode && f.o.FirstChanged("kv-events", "kv-events-host", "kv-events-port", "kv-replay-port") != "":
		return f.o.Only(f.o.FirstChanged("kv-events", "kv-events-host", "kv-events-port", "kv-replay-port"), "with --disaggregation-mode agg or prefill")
	case !f.kvEvents && f.o.FirstChanged("kv-events-host", "kv-events-port", "kv-replay-port") != "":
		return f.o.Only(f.o.FirstChanged("kv-events-host", "kv-events-port", "kv-replay-port"), "with KV events")
	case !f.bootstrap && f.o.FirstChanged("bootstrap-host", "bootstrap-port", "bootstrap-timeout") != "":
		return f.o.Only(f.o.FirstChanged("bootstrap-host", "bootstrap-port", "bootstrap-timeout"), "with --bootstrap")
	case f.meetLimit <= 0:
		return f.o.Refuse("bootstrap-timeout", "a time above 0")
	}
	return nil
}

// publishesEvents reports whether the worker publishes KV events: routers ask for those of
// workers that prefill.
func (f *workerFlags) publishesEvents(mode served.Mode) bool {
	return f.kvEvents && mode != served.Decode
}

// lookupEnv is the environment, over which flags win.
func (f *workerFlags) lookupEnv(name string) string {
	seconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
	switch {
	case name == "DYN_SYSTEM_PORT" && f.o.Changed("system-port"):
		return strconv.Itoa(f.systemPort)
	case name == "DYN_GRACEFUL_SHUTDOWN_GRACE_PERIOD_SECS" && f.o.Changed("grace"):
		return seconds(f.grace)
	case name == "DYN_WORKER_GRACEFUL_SHUTDOWN_TIMEOUT" && f.o.Changed("shutdown-timeout"):
		return seconds(f.shutdownTime)
	}
	return os.Getenv(name)
}
