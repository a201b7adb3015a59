package mocker

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler"
)

// FromArgs makes a mocker of a command line, and says what its worker is. Flags
// that cannot be read are an error of type fault.BackendInvalidArgument; for -h
// the error wraps flag.ErrHelp and lists the flags.
func FromArgs(argv []string) (*Engine, engine.WorkerConfig, error) {
	var f flags
	if err := f.read(argv); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			err = fault.New(fault.BackendInvalidArgument, "mocker: %w", err)
		}
		return nil, f.worker, err
	}
	e, err := New(f.options)
	return e, f.worker, err
}

// flags are those of a mocker's worker.
type flags struct {
	args, mode string
	set        []engineargs.Setting // of flags that stand for an engine argument
	options    Options
	worker     engine.WorkerConfig
}

// argument is a flag that stands for an engine argument.
type argument struct{ flag, key, help string }

func arguments() []argument {
	return []argument{
		{"engine-type", "engine_type", "scheduler: vllm or sglang"},
		{"block-size", "block_size", "tokens per KV block; 0: the engine's default"},
		{"num-gpu-blocks", "num_gpu_blocks", "KV blocks; default 16384"},
		{"max-num-seqs", "max_num_seqs", "requests in one pass; default 256"},
		{"max-num-batched-tokens", "max_num_batched_tokens", "tokens in one pass; default 8192"},
		{"speedup-ratio", "speedup_ratio", "divides the time of all passes; default 1"},
		{"zmq-kv-events-port", "zmq_kv_events_port", "port for KV events"},
		{"zmq-replay-port", "zmq_replay_port", "port for KV events that were missed"},
		{"bootstrap-port", "bootstrap_port", "port at which decode workers find a prefill worker; default any"},
	}
}

func (f *flags) bind(fs *flag.FlagSet) {
	o, w := &f.options, &f.worker
	fs.StringVar(&o.Model, "model-name", DefaultModel, "name of the model")
	fs.IntVar(&o.ContextLength, "context-length", 8192, "tokens of the longest prompt")
	fs.StringVar(&f.mode, "disaggregation-mode", "agg", "agg, prefill or decode")
	fs.StringVar(&f.args, "engine-args", "{}", "engine arguments, a JSON object or @file; the flags below win over it")
	for _, a := range arguments() {
		fs.Func(a.flag, a.help, func(text string) error {
			if a.key == "block_size" && text == "0" {
				return nil
			}
			if _, err := strconv.ParseFloat(text, 64); err != nil {
				text = strconv.Quote(text)
			}
			f.set = append(f.set, engineargs.Setting{Key: a.key, Value: text})
			return nil
		})
	}
	fs.StringVar(&o.KVHost, "kv-host", "", "address at which KV events are published, on any ports that are not given")
	fs.StringVar(&o.BootstrapHost, "bootstrap-host", "", "address at which decode workers find a prefill worker")
	fs.StringVar(&w.Namespace, "namespace", "", "namespace of the worker")
	fs.StringVar(&w.Component, "component", "", "component of the worker")
	fs.StringVar(&w.Endpoint, "endpoint", "", "endpoint of the worker")
	fs.StringVar(&w.EndpointTypes, "endpoint-types", "", "kinds of requests, as chat,completions")
	fs.BoolVar(&w.NoKVRouting, "no-kv-routing", false, "do not publish KV events to routers")
}

func (f *flags) read(argv []string) error {
	fs := flag.NewFlagSet("mocker", flag.ContinueOnError)
	fs.SetOutput(io.Discard)
	fs.Usage = func() {}
	f.bind(fs)
	if err := fs.Parse(argv); errors.Is(err, flag.ErrHelp) {
		var list strings.Builder
		fs.SetOutput(&list)
		fs.PrintDefaults()
		return fmt.Errorf("%w\n%s", err, list.String())
	} else if err != nil {
		return err
	}
	if fs.NArg() > 0 {
		return fmt.Errorf("%s: want flags only", fs.Arg(0))
	}
	mode, err := engine.ParseMode(f.mode)
	if err != nil {
		return err
	}
	f.options.Mode, f.worker.Mode, f.worker.ModelName = mode, mode, f.options.Model
	f.options.KVEvents = !f.worker.NoKVRouting
	text, err := engineargs.Load(f.args)
	if err != nil {
		return err
	}
	role, err := roleOf(mode)
	if err != nil {
		return err
	}
	f.options.Engine, err = engineargs.Parse(text, engineargs.Options{Set: f.set, Pool: role})
	if err == nil && f.options.Engine.Role != role {
		err = fmt.Errorf("worker_type is %q, want %q in mode %s", f.options.Engine.Role, role, mode)
	}
	return err
}

// roleOf is the part of a scheduler in a mode.
func roleOf(m engine.Mode) (scheduler.Role, error) {
	switch m {
	case engine.Aggregated:
		return scheduler.Aggregated, nil
	case engine.Prefill:
		return scheduler.Prefill, nil
	case engine.Decode:
		return scheduler.Decode, nil
	}
	return 0, fmt.Errorf("mode is %q, want agg, prefill or decode", m)
}
