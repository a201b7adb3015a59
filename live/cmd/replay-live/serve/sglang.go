package serve

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/live/mocker"
	"github.com/replay-llm/replay/live/sglang"
	"github.com/replay-llm/replay/replay/engineargs"
)

// sglangFlags hold the flags of sglang.
type sglangFlags struct {
	o         options.Options // of the engine
	mock      mocker.Options
	server    sglang.Options
	precise   cli.Choice
	fleet     fleet
	tokenizer string
	untilEOF  bool
}

// NewSGLangCommand makes the command that serves simulated engines as SGLang's own server does.
func NewSGLangCommand(s cli.Streams) *cobra.Command {
	f := &sglangFlags{}
	cmd := &cobra.Command{
		Use:   "sglang",
		Short: "Serve simulated engines as SGLang's own HTTP server does",
		Long: `Sglang serves engines without a model where gateways and load tests expect
SGLang's server: /generate, OpenAI's API, SGLang's /metrics, /health and the
rest. The scheduler is SGLang's own, simulated in real time; it needs neither
etcd nor NATS.

--fleet N serves N of them, each an engine of its own, at consecutive ports.

It prints one line of JSON for each once it listens, and serves until SIGINT or
SIGTERM; then it waits for requests under way and ends with exit code 0.`,
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
	f.o.Flags.Bind(cmd,
		cli.NewGroup("Server", f.bindServer, "host", "port", "fleet", "served-model-name", "context-length"),
		cli.NewGroup("Engine (these win over --engine-args)", f.bindEngine, "gpu", "model", "tp", "num-gpu-blocks", "page-size", "max-running-requests", "chunked-prefill-size", "speedup-ratio"))
	return cmd
}

// bindServer adds the flags of the server.
func (f *sglangFlags) bindServer(fs *pflag.FlagSet) {
	f.precise = cli.Choice{Names: []string{"timer", "spin"}, Value: "timer"}
	fs.StringVar(&f.fleet.host, "host", "127.0.0.1", "`address` to listen at")
	fs.IntVar(&f.fleet.port, "port", 30000, "`port` to listen at, the first one of a fleet; 0: any")
	fs.IntVar(&f.fleet.size, "fleet", 1, "`number` of servers")
	fs.StringVar(&f.mock.Model, "served-model-name", "", "`name` of the model that users ask for")
	fs.Lookup("served-model-name").DefValue = "that of --model, or " + mocker.DefaultModel
	fs.IntVar(&f.mock.ContextLength, "context-length", 8192, "`tokens` of the longest prompt with its answer")
	fs.StringVar(&f.tokenizer, "tokenizer", "", "cut the text of prompts as this tokenizer.json does, a `FILE`")
	fs.DurationVar(&f.fleet.grace, "grace", 10*time.Second, "`time` to wait for requests under way at the end")
	fs.BoolVar(&f.untilEOF, "until-eof", false, "end, in good order, when standard input ends too")
	fs.Var(&f.precise, "precise", "how passes wait, by `name`: timer, or spin, which looks at the clock in the end and takes a processor")
}

// bindEngine adds the engine's flags that a server of SGLang has.
func (f *sglangFlags) bindEngine(fs *pflag.FlagSet) {
	fs.String("engine-args", "", "engine arguments: a `JSON` object with the keys of the reference, or @file")
	for _, one := range options.EngineFlags() {
		switch one.Flag {
		case "startup-time", "dp":
			continue
		}
		if one.Only != "vllm" {
			f.o.Engine.Flags = append(f.o.Engine.Flags, one)
		}
	}
	options.BindFlags(fs, f.o.Engine.Flags)
	engine := fs.Lookup("engine") // there is one
	engine.Hidden, engine.DefValue = true, "sglang"
	fs.Lookup("block-size").DefValue, fs.Lookup("scheduler-profile").DefValue = "1", "sglang-0.5.23"
}

// readConfig turns flags into a configuration. All complaints about them are here.
func (f *sglangFlags) readConfig() error {
	last := f.fleet.port + f.fleet.size - 1
	if err := f.o.Check(
		inRange("port", f.fleet.port, 0, 65535), inRange("fleet", f.fleet.size, 1, 1024), inRange("context-length", f.mock.ContextLength, 1, 1<<30),
		cli.Wants(f.fleet.grace >= 0, "grace", "at least 0"),
		cli.Wants(f.fleet.port == 0 || last <= 65535, "fleet", fmt.Sprintf("at most %d, ports end at 65535", 65536-f.fleet.port)),
		cli.Wants(!f.o.Changed("engine") || f.o.Set.Lookup("engine").Value.String() == "sglang", "engine", "sglang")); err != nil {
		return err
	}
	if err := f.o.Set.Set("engine", "sglang"); err != nil {
		return err
	}
	p := options.Pool{Flag: "engine-args"}
	if err := f.o.ParseEngine(&p); err != nil {
		return err
	}
	if err := f.o.CheckEngines([]options.Pool{p}); err != nil {
		return err
	}
	if p.Args.Engine != engineargs.SGLang {
		return cli.Usagef("--engine-args: engine_type is %v, want sglang", p.Args.Engine)
	}
	f.mock.Engine, f.mock.Precise = *p.Args, f.precise.Value == "spin"
	f.mock.Model = cmp.Or(f.mock.Model, options.HardwareOf(f.o.Engine.Flags).Text("model"), mocker.DefaultModel)
	f.server.Version = "0.5.23"
	return nil
}

// sglangLine is what is printed of a server that listens.
type sglangLine struct {
	HTTP  string `json:"http"`
	Model string `json:"model"`
}

// run serves until ctx ends, or standard input if that was asked for.
func (f *sglangFlags) run(ctx context.Context, s cli.Streams) (err error) {
	s.EndInOwnTime()
	ctx, end := context.WithCancel(ctx)
	defer end()
	if f.untilEOF {
		go endWithInput(s, end)
	}
	log := newLog(s)
	f.server.Log, f.mock.Warn = log, func(text string) { log.Warn(text) }
	if f.server.Tokenize, err = loadTokenizer(f.tokenizer); err != nil {
		return err
	}
	f.server.Engine = f.mock
	f.fleet.start = func(ctx context.Context, _ int) (fleetServer, error) { return sglang.Start(ctx, f.server) }
	f.fleet.line = func(_ fleetServer, url string) any { return sglangLine{url, f.mock.Model} }
	return f.fleet.serve(ctx, s)
}
