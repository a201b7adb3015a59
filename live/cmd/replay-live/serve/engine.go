package serve

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/httpfault"
	"github.com/replay-llm/replay/live/cmd/replay-live/serving"
	"github.com/replay-llm/replay/live/link"
	"github.com/replay-llm/replay/live/mocker"
	"github.com/replay-llm/replay/live/standalone"
	"github.com/replay-llm/replay/replay/engineargs"
)

// engineFlags are the common flags of vllm and sglang.
type engineFlags struct {
	o         options.Options // flags of the engine
	server    standalone.Options
	precise   cli.Choice
	fleet     fleet
	length    string // the flag for the longest prompt with its answer
	tokenizer string
	faults    string           // a JSON object, or @ and a file
	names     []string         // names of the model
	limits    httpfault.Faults // queue limits in flags
	cert, key string           // paths of the PEM files
	untilEOF  bool
	insecure  bool
}

// bindCommon adds the flags of a listening server.
func (f *engineFlags) bindCommon(fs *pflag.FlagSet, port int, length string) {
	f.precise, f.length = cli.Choice{Names: []string{"timer", "spin"}, Value: "timer"}, length
	fs.StringVar(&f.fleet.host, "host", "127.0.0.1", "`address` to listen at")
	fs.IntVar(&f.fleet.port, "port", port, "first `port` of the servers; 0: any free port")
	fs.IntVar(&f.fleet.size, "fleet", 1, "`number` of servers")
	fs.StringSliceVar(&f.names, "served-model-name", nil, "comma-separated `names` of the model in requests; answers have the first name")
	fs.Lookup("served-model-name").DefValue = "that of --model, or " + mocker.DefaultModel
	fs.IntVar(&f.server.Engine.ContextLength, length, 8192, "maximum number of `tokens` of a prompt with its answer")
	fs.StringVar(&f.tokenizer, "tokenizer", "", "tokenizer.json `FILE` that tokenizes the text of prompts")
	fs.DurationVar(&f.fleet.grace, "grace", 10*time.Second, "maximum `time` to wait for requests in flight at shutdown")
	fs.StringVar(&f.faults, "faults", "", "faults to inject: a `JSON` object, or @file; a POST to /replay/faults replaces them")
	fs.IntVar(&f.limits.MaxQueuedRequests, "max-num-queued-reqs", 0, "maximum number of `requests` in flight (waiting and running); more requests get status 503; 0: no limit")
	fs.IntVar(&f.limits.MaxQueuedTokens, "max-num-queued-tokens", 0, "maximum number of prompt `tokens` of requests without a first token; more requests get status 503; 0: no limit")
	fs.StringVar(&f.cert, "ssl-certfile", "", "PEM `file` of the TLS certificate; enables HTTPS")
	fs.StringVar(&f.key, "ssl-keyfile", "", "PEM `file` of the key of --ssl-certfile")
	fs.StringSliceVar(&f.server.APIKeys, "api-key", nil, "comma-separated API `keys`: requests to /v1 require one of them as a bearer token")
	fs.BoolVar(&f.insecure, "insecure", false, "allow listening outside loopback without certificates or a token: every client is accepted")
	fs.BoolVar(&f.untilEOF, "until-eof", false, "also shut down when standard input ends")
	cli.BindLogFormat(fs)
	fs.Var(&f.precise, "precise", "how passes wait, by `name`: timer, or spin (polls the clock at the end of a wait; takes one processor)")
}

// bindEngineFlags adds the engine's flags, except the flags in without and the flags of the engine other. other ""
// excludes no engine.
func bindEngineFlags(o *options.Options, fs *pflag.FlagSet, other string, without ...string) {
	fs.String("engine-args", "", "engine arguments: a `JSON` object, or @file; replay settings lists the keys")
	for _, one := range options.EngineFlags() {
		if (other == "" || one.Only != other) && !slices.Contains(without, one.Flag) {
			o.Engine.Flags = append(o.Engine.Flags, one)
		}
	}
	options.BindFlags(fs, o.Engine.Flags)
}

// checkCommon returns the first error in the common flags.
func (f *engineFlags) checkCommon() (err error) {
	if f.fleet.links, err = serving.Links(f.insecure, "--host", f.fleet.host); err != nil {
		return err
	}
	if f.faults != "" {
		if f.server.Faults, err = httpfault.Read(f.faults); err != nil {
			return cli.Usagef("--faults: %v", err)
		}
	}
	if f.limits.MaxQueuedRequests > 0 || f.limits.MaxQueuedTokens > 0 {
		if f.server.Faults == nil {
			f.server.Faults, _ = httpfault.Parse([]byte("{}"))
		}
		f.server.Faults.MaxQueuedRequests = cmp.Or(f.limits.MaxQueuedRequests, f.server.Faults.MaxQueuedRequests)
		f.server.Faults.MaxQueuedTokens = cmp.Or(f.limits.MaxQueuedTokens, f.server.Faults.MaxQueuedTokens)
	}
	if len(f.names) > 0 {
		f.server.Engine.Model, f.server.Aliases = f.names[0], f.names[1:]
	}
	if f.cert != "" && f.key != "" {
		if f.fleet.tls, err = link.ReadServer(f.cert, f.key); err != nil {
			return cli.Usagef("--ssl-certfile: %v", err)
		}
	}
	f.server.Proven = f.fleet.links.Proves(f.fleet.host)
	last := f.fleet.port + f.fleet.size - 1
	return f.o.Check(
		inRange("max-num-queued-reqs", f.limits.MaxQueuedRequests, 0, 1<<30), inRange("max-num-queued-tokens", f.limits.MaxQueuedTokens, 0, 1<<40),
		cli.Needs(f.key != "", "with --ssl-keyfile", "ssl-certfile"), cli.Needs(f.cert != "", "with --ssl-certfile", "ssl-keyfile"),
		cli.Wants(!slices.Contains(f.server.APIKeys, ""), "api-key", "keys that are not empty"),
		inRange("port", f.fleet.port, 0, 65535), inRange("fleet", f.fleet.size, 1, 1024), inRange(f.length, f.server.Engine.ContextLength, 1, 1<<30),
		cli.Wants(f.fleet.grace >= 0, "grace", "at least 0"),
		cli.Wants(f.fleet.port == 0 || last <= 65535, "fleet", fmt.Sprintf("at most %d, ports end at 65535", 65536-f.fleet.port)))
}

// readEngine sets the engine from the flags. The engine must be of the given kind.
func (f *engineFlags) readEngine(kind engineargs.Engine) error {
	p := options.Pool{Flag: "engine-args"}
	if err := f.o.ParseEngine(&p); err != nil {
		return err
	}
	if err := f.o.CheckEngines([]options.Pool{p}); err != nil {
		return err
	}
	if p.Args.Engine != kind {
		return cli.Usagef("--engine-args: engine_type is %v, must be %v", p.Args.Engine, kind)
	}
	f.server.Engine.Engine, f.server.Engine.Precise = *p.Args, f.precise.Value == "spin"
	f.server.Engine.Model = cmp.Or(f.server.Engine.Model, options.HardwareOf(f.o.Engine.Flags).Text("model"), mocker.DefaultModel)
	return nil
}

// runFleet serves until ctx ends, or with --until-eof until standard input ends.
func (f *engineFlags) runFleet(ctx context.Context, s cli.Streams) error {
	ctx, end := serving.Begin(ctx, s, f.untilEOF)
	defer end()
	log := serving.NewLog(s)
	f.server.Log, f.server.Engine.Warn = log, func(text string) { log.Warn(text) }
	var err error
	if f.server.Tokenize, err = loadTokenizer(f.tokenizer); err != nil {
		return err
	}
	return f.fleet.serve(ctx, s)
}
