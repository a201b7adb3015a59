package serve

import (
	"context"
	"net/http"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/vllmpaths"
	"github.com/replay-llm/replay/live/cmd/replay-live/serving"
	"github.com/replay-llm/replay/live/vllm"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
)

// vllmFlags are the flags of vllm.
type vllmFlags struct {
	engineFlags
	adapters int    // adapters in use at once
	lora     bool   // adapters can be loaded at run time
	tools    bool   // answer requests that have tools with tool calls
	dev      bool   // serve the paths of vLLM's development mode
	kvConfig string // JSON of --kv-events-config
	transfer string // JSON of --kv-transfer-config
}

// NewVLLMCommand returns the command that serves simulated engines with the API of vLLM's server.
func NewVLLMCommand(s cli.Streams) *cobra.Command {
	f := &vllmFlags{}
	cmd := &cobra.Command{
		Use:   "vllm",
		Short: "Serve simulated engines as vLLM's own HTTP server does",
		Long: `Vllm serves simulated engines with the HTTP interface of vLLM's server, for
gateways, endpoint pickers and load tests: OpenAI's API, vLLM's /metrics,
/health, /tokenize and other paths. The scheduler follows vLLM's own rules, in
real time. It requires neither etcd nor NATS.

Vllm serve MODEL accepts the flags of vllm serve. A warning lists the flags
without effect.

--fleet N serves N separate engines, at consecutive ports.

It prints one line of JSON for each engine that listens, and serves until SIGINT
or SIGTERM; then it waits for requests in flight and ends with exit code 0.`,
		Example: `  replay vllm --port 8001
  replay vllm serve meta-llama/Llama-3.1-8B-Instruct --tensor-parallel-size 2
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
	cmd.AddCommand(newDropIn(s, cmd))
	f.o.Flags.Bind(cmd,
		cli.NewGroup("Server", f.bindServer, "host", "port", "fleet", "served-model-name", "max-model-len"),
		cli.NewGroup("Engine (these override --engine-args)", f.bindEngine, "gpu", "model", "tp", "num-gpu-blocks", "block-size", "max-num-seqs", "max-num-batched-tokens", "speedup-ratio"))
	return cli.Alias(cmd, map[string]string{"http-host": "host", "http-port": "port"})
}

// bindServer adds the flags of the server.
func (f *vllmFlags) bindServer(fs *pflag.FlagSet) {
	f.bindCommon(fs, 8000, "max-model-len")
	fs.StringSliceVar(&f.server.Engine.Adapters, "lora-modules", nil, "comma-separated `names` of LoRA adapters that are served as models")
	fs.IntVar(&f.adapters, "max-loras", 1, "with --lora-modules or --enable-lora: maximum number of `adapters` in use at once")
	fs.StringVar(&f.transfer, "kv-transfer-config", "", "answer kv_transfer_params as vLLM's NixlConnector does: a `JSON` object with kv_connector NixlConnector; both workers compute the prompt")
	fs.BoolVar(&f.tools, "plausible-tools", false, "if a request has tools or a JSON schema, answer with tool calls or JSON that match them")
	fs.BoolVar(&f.lora, "enable-lora", false, "serve /v1/load_lora_adapter and /v1/unload_lora_adapter")
	fs.StringVar(&f.kvConfig, "kv-events-config", "", "publish KV events: a `JSON` object as in vLLM; each further server uses the next port")
}

// bindEngine adds the flags of vLLM's engine.
func (f *vllmFlags) bindEngine(fs *pflag.FlagSet) {
	bindEngineFlags(&f.o, fs, "sglang", "engine", "startup-time", "max-model-len", "dp")
	fs.Lookup("block-size").DefValue, fs.Lookup("scheduler-profile").DefValue = "16", "vllm"
	f.o.EngineDefaults = []engineargs.Setting{{Key: "scheduler_profile", Value: `"vllm"`}, {Key: "block_size", Value: "16"}}
}

// readConfig converts the flags to a configuration, and checks them.
func (f *vllmFlags) readConfig() error {
	if err := f.checkCommon(); err != nil {
		return err
	}
	err := f.o.Check(inRange("max-loras", f.adapters, 1, 1024), cli.Needs(f.lora || len(f.server.Engine.Adapters) > 0, "with --lora-modules or --enable-lora", "max-loras"))
	if err == nil {
		err = f.readEngine(engineargs.VLLM)
	}
	if err != nil {
		return err
	}
	const devMode = "VLLM_SERVER_DEV_MODE"
	if v := os.Getenv(devMode); v == "1" {
		f.dev = true
	} else if v != "" && v != "0" {
		return cli.Usagef("%s is %q, must be 0 or 1", devMode, v)
	}
	if err := vllmpaths.CheckTransfer(f.transfer); err != nil {
		return cli.Usagef("--kv-transfer-config: %v", err)
	}
	f.server.Version = engines.VersionOf(f.server.Engine.Engine.Profile)
	if f.server.Engine.KVSockets, err = parseKVConfig(f.kvConfig, f.server.Version, f.fleet.host, f.fleet.links.Insecure()); err != nil {
		return err
	}
	if err := f.server.Engine.KVSockets.CheckPorts(f.fleet.size); err != nil {
		return cli.Usagef("--kv-events-config: %v", err)
	}
	return f.checkAdapters()
}

// checkAdapters rejects duplicate names of adapters. checkAdapters drops the text after "=", which is a path in vLLM.
func (f *vllmFlags) checkAdapters() error {
	seen := map[string]bool{f.server.Engine.Model: true}
	for i, text := range f.server.Engine.Adapters {
		name, _, _ := strings.Cut(text, "=")
		if name = strings.TrimSpace(name); name == "" || seen[name] {
			return cli.Usagef("--lora-modules=%s: must be names that differ from each other and from the model's, %s", strings.Join(f.server.Engine.Adapters, ","), f.server.Engine.Model)
		}
		seen[name], f.server.Engine.Adapters[i] = true, name
	}
	if len(f.server.Engine.Adapters) == 0 && !f.lora {
		f.adapters = 0
	}
	return nil
}

// serverLine is the printed line of a listening server.
type serverLine struct {
	HTTP  string `json:"http"`
	Model string `json:"model"`
	// Endpoints of published KV events and of requests for missed events.
	KVEvents string `json:"kv_events,omitempty"`
	KVReplay string `json:"kv_replay,omitempty"`
}

// run serves until ctx ends, or with --until-eof until standard input ends.
func (f *vllmFlags) run(ctx context.Context, s cli.Streams) error {
	f.fleet.start = func(ctx context.Context, i int, ask func(http.Handler) http.Handler) (serving.Server, error) {
		o := vllm.Options{Options: f.server, MaxAdapters: f.adapters, PlausibleTools: f.tools, DevMode: f.dev, Transfer: vllmpaths.NewTransfer(f.transfer, f.fleet.host, i)}
		o.Ask = ask
		o.Engine.KVSockets = o.Engine.KVSockets.Next(i)
		return vllm.Start(ctx, o)
	}
	f.fleet.line = func(one serving.Server, url string) any {
		events := one.(*vllm.Server).Source()
		return serverLine{url, f.server.Engine.Model, events.Events, events.Replay}
	}
	return f.runFleet(ctx, s)
}
