package serve

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/live/mocker"
	"github.com/replay-llm/replay/live/vllm"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
)

// vllmFlags hold the flags of vllm.
type vllmFlags struct {
	o         options.Options // of the engine
	mock      mocker.Options
	server    vllm.Options
	precise   cli.Choice
	fleet     fleet
	tokenizer string
	kvConfig  string // of KV events
	untilEOF  bool
}

// NewVLLMCommand makes the command that serves simulated engines as vLLM's own server does.
func NewVLLMCommand(s cli.Streams) *cobra.Command {
	f := &vllmFlags{}
	cmd := &cobra.Command{
		Use:   "vllm",
		Short: "Serve simulated engines as vLLM's own HTTP server does",
		Long: `Vllm serves engines without a model where gateways, endpoint pickers and load
tests expect vLLM's server: OpenAI's API, vLLM's /metrics, /health, /tokenize
and the rest, and answers and errors in its shapes. The scheduler is vLLM's own,
simulated in real time; it needs neither etcd nor NATS.

--fleet N serves N of them, each an engine of its own, at consecutive ports.

It prints one line of JSON for each once it listens, and serves until SIGINT or
SIGTERM; then it waits for requests under way and ends with exit code 0.`,
		Example: `  replay vllm --port 8001
  replay vllm --port 8001 --fleet 8 --gpu h100 --model llama-3.1-8b
  replay vllm --served-model-name my-model --max-num-seqs 64 --speedup-ratio 10`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := f.readConfig(); err != nil {
				return err
			}
			return f.run(cmd.Context(), s)
		},
	}
	f.o.Flags.Bind(cmd,
		cli.NewGroup("Server", f.bindServer, "host", "port", "fleet", "served-model-name", "max-model-len"),
		cli.NewGroup("Engine (these win over --engine-args)", f.bindEngine, "gpu", "model", "tp", "num-gpu-blocks", "block-size", "max-num-seqs", "max-num-batched-tokens", "speedup-ratio"))
	return cmd
}

// bindServer adds the flags of the server.
func (f *vllmFlags) bindServer(fs *pflag.FlagSet) {
	f.precise = cli.Choice{Names: []string{"timer", "spin"}, Value: "timer"}
	fs.StringVar(&f.fleet.host, "host", "127.0.0.1", "`address` to listen at")
	fs.IntVar(&f.fleet.port, "port", 8000, "`port` to listen at, the first one of a fleet; 0: any")
	fs.IntVar(&f.fleet.size, "fleet", 1, "`number` of servers")
	fs.StringVar(&f.mock.Model, "served-model-name", "", "`name` of the model that users ask for")
	fs.Lookup("served-model-name").DefValue = "that of --model, or " + mocker.DefaultModel
	fs.IntVar(&f.mock.ContextLength, "max-model-len", 8192, "`tokens` of the longest prompt with its answer")
	fs.StringSliceVar(&f.mock.Adapters, "lora-modules", nil, "`names` of LoRA adapters, separated by commas, that can be asked for as models")
	fs.IntVar(&f.server.MaxAdapters, "max-loras", 1, "with --lora-modules: `adapters` in use at once, as metrics tell it")
	fs.StringVar(&f.tokenizer, "tokenizer", "", "cut the text of prompts as this tokenizer.json does, a `FILE`")
	fs.StringVar(&f.kvConfig, "kv-events-config", "", "publish KV events: a `JSON` object as vLLM's; ports go up by one from server to server")
	fs.DurationVar(&f.fleet.grace, "grace", 10*time.Second, "`time` to wait for requests under way at the end")
	fs.BoolVar(&f.untilEOF, "until-eof", false, "end, in good order, when standard input ends too")
	fs.Var(&f.precise, "precise", "how passes wait, by `name`: timer, or spin, which looks at the clock in the end and takes a processor")
}

// bindEngine adds the engine's flags that a server of vLLM has.
func (f *vllmFlags) bindEngine(fs *pflag.FlagSet) {
	fs.String("engine-args", "", "engine arguments: a `JSON` object with the keys of the reference, or @file")
	for _, one := range options.EngineFlags() {
		switch one.Flag {
		case "engine", "startup-time", "max-model-len", "dp":
			continue
		}
		if one.Only != "sglang" {
			f.o.Engine.Flags = append(f.o.Engine.Flags, one)
		}
	}
	options.BindFlags(fs, f.o.Engine.Flags)
	fs.Lookup("block-size").DefValue, fs.Lookup("scheduler-profile").DefValue = "16", "vllm"
	f.o.Usual = []engineargs.Setting{{Key: "scheduler_profile", Value: `"vllm"`}, {Key: "block_size", Value: "16"}}
}

// readConfig turns flags into a configuration. All complaints about them are here.
func (f *vllmFlags) readConfig() error {
	last := f.fleet.port + f.fleet.size - 1
	if err := f.o.Check(
		inRange("port", f.fleet.port, 0, 65535), inRange("fleet", f.fleet.size, 1, 1024), inRange("max-model-len", f.mock.ContextLength, 1, 1<<30),
		inRange("max-loras", f.server.MaxAdapters, 1, 1024), cli.Wants(f.fleet.grace >= 0, "grace", "at least 0"),
		cli.Needs(len(f.mock.Adapters) > 0, "with --lora-modules", "max-loras"),
		cli.Wants(f.fleet.port == 0 || last <= 65535, "fleet", fmt.Sprintf("at most %d, ports end at 65535", 65536-f.fleet.port))); err != nil {
		return err
	}
	p := options.Pool{Flag: "engine-args"}
	err := f.o.ParseEngine(&p)
	if err != nil {
		return err
	}
	if err := f.o.CheckEngines([]options.Pool{p}); err != nil {
		return err
	}
	if p.Args.Engine != engineargs.VLLM {
		return cli.Usagef("--engine-args: engine_type is %v, want vllm", p.Args.Engine)
	}
	f.mock.Engine, f.mock.Precise = *p.Args, f.precise.Value == "spin"
	if f.mock.Model == "" {
		f.mock.Model = cmp.Or(options.HardwareOf(f.o.Engine.Flags).Text("model"), mocker.DefaultModel)
	}
	f.server.Root, f.server.Version = f.mock.Model, engines.VersionOf(p.Args.Profile)
	if f.mock.KVSockets, err = parseKVConfig(f.kvConfig, f.server.Version); err != nil {
		return err
	}
	if err := checkKVFleet(f.mock.KVSockets, f.fleet.size); err != nil {
		return err
	}
	return f.checkAdapters()
}

// checkAdapters refuses names of adapters that mean two things. What follows "=", where vLLM
// reads an adapter from, is cut off.
func (f *vllmFlags) checkAdapters() error {
	seen := map[string]bool{f.mock.Model: true}
	for i, text := range f.mock.Adapters {
		name, _, _ := strings.Cut(text, "=")
		if name = strings.TrimSpace(name); name == "" || seen[name] {
			return cli.Usagef("--lora-modules=%s: want names that differ from each other and from the model's, %s", strings.Join(f.mock.Adapters, ","), f.mock.Model)
		}
		seen[name], f.mock.Adapters[i] = true, name
	}
	if len(f.mock.Adapters) == 0 {
		f.server.MaxAdapters = 0
	}
	return nil
}

// vllmLine is what is printed of a server that listens.
type vllmLine struct {
	HTTP  string `json:"http"`
	Model string `json:"model"`
	// Where KV events are published, and where to ask for what was missed.
	KVEvents string `json:"kv_events,omitempty"`
	KVReplay string `json:"kv_replay,omitempty"`
}

// run serves until ctx ends, or standard input if that was asked for.
func (f *vllmFlags) run(ctx context.Context, s cli.Streams) (err error) {
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
	f.fleet.start = func(ctx context.Context, i int) (fleetServer, error) {
		o := f.server
		o.Engine = f.mock
		o.Engine.KVSockets = kvSocketsOf(f.mock.KVSockets, i)
		return vllm.Start(ctx, o)
	}
	f.fleet.line = func(one fleetServer, url string) any {
		events := one.(*vllm.Server).Source()
		return vllmLine{url, f.mock.Model, events.Events, events.Replay}
	}
	return f.fleet.serve(ctx, s)
}
