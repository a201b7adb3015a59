package serve

import (
	"context"
	"net/http"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/live/cmd/replay-live/serving"
	"github.com/replay-llm/replay/live/sglang"
	"github.com/replay-llm/replay/replay/engineargs"
)

// sglangFlags are the flags of sglang.
type sglangFlags struct{ engineFlags }

// NewSGLangCommand returns the command that serves simulated engines with the API of SGLang's server.
func NewSGLangCommand(s cli.Streams) *cobra.Command {
	f := &sglangFlags{}
	cmd := &cobra.Command{
		Use:   "sglang",
		Short: "Serve simulated engines as SGLang's own HTTP server does",
		Long: `Sglang serves simulated engines with the HTTP interface of SGLang's server, for
gateways and load tests: /generate, OpenAI's API, SGLang's /metrics, /health and
other paths. The scheduler follows SGLang's own rules, in real time. It requires
neither etcd nor NATS.

Sglang serve accepts the flags of sglang.launch_server. A warning lists the
flags without effect.

--fleet N serves N separate engines, at consecutive ports.

It prints one line of JSON for each engine that listens, and serves until SIGINT
or SIGTERM; then it waits for requests in flight and ends with exit code 0.`,
		Example: `  replay sglang --port 30000
  replay sglang --port 30000 --fleet 4 --gpu h100 --model llama-3.1-8b`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.readConfig(); err != nil {
				return err
			}
			return f.run(cmd.Context(), s)
		},
	}
	cmd.AddCommand(newDropIn(s, cmd))
	f.o.Flags.Bind(cmd,
		cli.NewGroup("Server", f.bindServer, "host", "port", "fleet", "served-model-name", "context-length"),
		cli.NewGroup("Engine (these override --engine-args)", f.bindEngine, "gpu", "model", "tp", "num-gpu-blocks", "page-size", "max-running-requests", "chunked-prefill-size", "speedup-ratio"))
	return cli.Alias(cmd, map[string]string{"http-host": "host", "http-port": "port"})
}

// bindServer adds the flags of the server.
func (f *sglangFlags) bindServer(fs *pflag.FlagSet) {
	f.bindCommon(fs, 30000, "context-length")
	fs.IntVar(&f.server.Engine.MaxWaiting, "max-queued-requests", 0, "maximum number of `requests` that wait in the scheduler; more requests get status 503; 0: no limit")
}

// bindEngine adds the flags of SGLang's engine.
func (f *sglangFlags) bindEngine(fs *pflag.FlagSet) {
	bindEngineFlags(&f.o, fs, "vllm", "startup-time", "dp")
	engine := fs.Lookup("engine") // there is only this engine
	engine.Hidden, engine.DefValue = true, "sglang"
	fs.Lookup("block-size").DefValue, fs.Lookup("scheduler-profile").DefValue = "1", "sglang-0.5.23"
}

// readConfig converts the flags to a configuration, and checks them.
func (f *sglangFlags) readConfig() error {
	if err := f.checkCommon(); err != nil {
		return err
	}
	if err := f.o.Check(inRange("max-queued-requests", f.server.Engine.MaxWaiting, 0, 1<<30), cli.Wants(!f.o.Changed("engine") || f.o.Set.Lookup("engine").Value.String() == "sglang", "engine", "sglang")); err != nil {
		return err
	}
	if err := f.o.Set.Set("engine", "sglang"); err != nil {
		return err
	}
	f.server.Version = "0.5.23"
	return f.readEngine(engineargs.SGLang)
}

// run serves until ctx ends, or with --until-eof until standard input ends.
func (f *sglangFlags) run(ctx context.Context, s cli.Streams) error {
	f.fleet.start = func(ctx context.Context, _ int, ask func(http.Handler) http.Handler) (serving.Server, error) {
		o := f.server
		o.Ask = ask
		return sglang.Start(ctx, o)
	}
	f.fleet.line = func(_ serving.Server, url string) any { return serverLine{HTTP: url, Model: f.server.Engine.Model} }
	return f.runFleet(ctx, s)
}
