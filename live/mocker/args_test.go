package mocker

import (
	"errors"
	"flag"
	"strings"
	"testing"

	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/fault"
	"github.com/replay-llm/replay/replay/engineargs"
)

// A command line says what a mocker and its worker are.
func TestFromArgs(t *testing.T) {
	e, w, err := FromArgs(strings.Fields(`--model-name small --engine-type sglang --engine-args {"num_gpu_blocks":100,"block_size":32}
		--num-gpu-blocks 200 --block-size 0 --speedup-ratio 2.5 --context-length 50 --disaggregation-mode PREFILL --component c --no-kv-routing`))
	if err != nil {
		t.Fatal(err)
	}
	a := e.options.Engine
	if a.Engine != engineargs.SGLang || a.Blocks != 200 || a.BlockTokens != 32 || a.Speedup != 2.5 || e.options.Model != "small" ||
		e.options.ContextLength != 50 || e.options.Mode != engine.Prefill || w.Mode != engine.Prefill || w.Component != "c" || e.options.KVEvents {
		t.Errorf("options %+v, worker %+v", e.options, w)
	}
	if _, _, err := FromArgs([]string{"-h"}); !errors.Is(err, flag.ErrHelp) || !strings.Contains(err.Error(), "-engine-type") {
		t.Errorf("help: %v", err)
	}
}

// What makes no sense is refused with its place.
func TestFromArgsRefuses(t *testing.T) {
	for line, want := range map[string]string{
		"--num-gpu-blocks many":                     "num_gpu_blocks",
		"--engine-type tgi":                         "engine_type",
		"--engine-args {":                           "JSON",
		"--disaggregation-mode both":                "disaggregation mode",
		"--no-such":                                 "no-such",
		"extra":                                     "extra",
		`--engine-args {"worker_type":"decode"}`:    "worker_type",
		"--context-length -1":                       "context length",
		"--block-size 3":                            "block_size",
		`--engine-args {"aic_backend":"something"}`: "aic",
	} {
		if _, _, err := FromArgs(strings.Fields(line)); !errors.Is(err, fault.BackendInvalidArgument) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: error %v, want an invalid argument about %s", line, err, want)
		}
	}
}
