package machines

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/scheduler/hardware"
)

// fitFlags are the flags of fit.
type fitFlags struct {
	options.Hardware
	seqs, batch, block int
	engine, output     cli.Choice
	passes             bool
}

// NewFitCommand returns the command fit, which computes whether models fit GPUs.
func NewFitCommand(s cli.Streams) *cobra.Command {
	f := &fitFlags{}
	cmd := &cobra.Command{
		Use:   "fit --model MODEL [--gpu GPU]",
		Short: "List the GPUs that a model fits on, and its memory for KV cache",
		Long: `Compute how a model fills the memory of a GPU: weights, activations of the
largest pass, CUDA graphs, libraries, and the memory left for KV blocks. Without
--gpu all GPUs are listed. Without --tp, the smallest tensor parallelism that
fits is listed, and its doubles up to 8.`,
		Example: `  replay fit --model llama-3.1-70b
  replay fit --model deepseek-v3 --gpu h200 --tp 8 --kv-cache-dtype fp8`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := needOneFit(f); err != nil {
				return err
			}
			rows, err := f.rows(cmd.Flags().Changed)
			if err != nil {
				return err
			}
			if f.output.Value == "json" {
				return cli.WriteJSON(s.Out, rows)
			}
			if err := writeFits(s.Out, rows); err != nil {
				return err
			}
			for i := range rows {
				if err := writePasses(s.Out, &rows[i]); err != nil {
					return err
				}
			}
			return nil
		},
	}
	return cli.BindOwn(cmd, func(fs *pflag.FlagSet) {
		f.Hardware.Bind(fs)
		fs.IntVar(&f.seqs, "max-num-seqs", 256, "`requests` a worker runs at once")
		fs.IntVar(&f.batch, "max-num-batched-tokens", 8192, "maximum number of `tokens` per pass")
		fs.IntVar(&f.block, "block-size", 16, "`tokens` per KV block")
		for _, name := range []string{"max-num-seqs", "max-num-batched-tokens"} {
			fs.Lookup(name).DefValue = "as the engine's server"
		}
		fs.Lookup("block-size").DefValue = "16, trtllm 32"
		f.engine = cli.Choice{Names: []string{"vllm", "sglang", "trtllm"}, Value: "vllm"}
		fs.Var(&f.engine, "engine", "engine, by `name`: vllm, sglang or trtllm")
		fs.BoolVar(&f.passes, "passes", false, "also print the parts of a decode pass and of a prefill pass")
		cli.BindForm(fs, &f.output)
	})
}

// fitRow is a model on a GPU.
type fitRow struct {
	GPU   string `json:"gpu"`
	Model string `json:"model"`
	TP    int    `json:"tp"`
	PP    int    `json:"pp"`
	DP    int    `json:"dp"`
	GPUs  int    `json:"gpus"`
	Fits  bool   `json:"fits"`
	Note  string `json:"reason,omitempty"`
	Rules string `json:"memory_rules,omitempty"` // set if they were not compared with the engine
	hardware.Budget
	Passes []passTimes `json:"passes,omitempty"`
}

// rows returns the requested fits; changed reports whether a flag was given.
func (f *fitFlags) rows(changed func(flag string) bool) ([]fitRow, error) {
	if f.Text("model") == "" {
		return nil, cli.Usagef("--model: must be a name or the path of a config.json; `replay models` lists names")
	}
	for _, n := range []struct {
		name  string
		value int
	}{{"max-num-seqs", f.seqs}, {"max-num-batched-tokens", f.batch}, {"block-size", f.block}} {
		if n.value < 1 {
			return nil, cli.Usagef("--%s=%d: must be at least 1", n.name, n.value)
		}
	}
	gpus := []string{f.Text("gpu")}
	if gpus[0] == "" {
		gpus = nil
		for _, g := range hardware.GPUs() {
			gpus = append(gpus, g.Name)
		}
	}
	set := f.set(changed)
	engine, err := engineargs.Parse(nil, engineargs.Options{Set: set})
	if err != nil {
		return nil, cli.WrongUsage(err)
	}
	var rows []fitRow
	for _, name := range gpus {
		fit, err := f.Fit(name)
		if err != nil {
			return nil, err
		}
		args, err := engineargs.Parse(nil, engineargs.Options{Set: set, Unless: engines.OnServer(&engine, &fit, func(key string) bool { return engineargs.Gives(nil, set, key) }), Incomplete: true})
		if err != nil {
			return nil, err
		}
		fit = engines.OnEngine(fit, &args)
		fit.Engine, fit.Operators = engines.ReleaseOf(&args), f.Text("op-tables")
		own := fitRows(fit, changed("tp"), func(fit *hardware.Fit) {
			if f.Text("gpu-memory-utilization") == "" {
				fit.Utilization = engines.ServerShare(&args, fit)
			}
		})
		if err := f.addPasses(own, fit); err != nil {
			return nil, err
		}
		for i := range own {
			own[i].Rules = memoryRules(&args)
		}
		rows = append(rows, own...)
	}
	return rows, nil
}

// memoryRules returns the source of the memory rules of an engine, "" if they were compared with the engine.
func memoryRules(a *engineargs.Args) string {
	if a.Engine != engineargs.TRTLLM {
		return ""
	}
	return a.Profile + ", " + engines.NotCompared
}

// set returns the engine arguments of the flags; changed reports whether a flag was given.
func (f *fitFlags) set(changed func(flag string) bool) (all []engineargs.Setting) {
	engine := f.engine.Value
	if engine != "vllm" {
		all = append(all, engineargs.Setting{Key: "engine_type", Value: strconv.Quote(engine)})
	}
	keys := map[string]string{} // of flags with another name than their argument
	if engine == "trtllm" {
		keys["max-num-seqs"], keys["max-num-batched-tokens"] = "trtllm.max_batch_size", "trtllm.max_num_tokens"
	}
	for flag, value := range map[string]int{"max-num-seqs": f.seqs, "max-num-batched-tokens": f.batch, "block-size": f.block} {
		if engine == "sglang" || changed(flag) {
			all = append(all, engineargs.Setting{Key: cmp.Or(keys[flag], strings.ReplaceAll(flag, "-", "_")), Value: strconv.Itoa(value)})
		}
	}
	return all
}

// fitRows returns the fits on one GPU: the given tensor parallelism, or the smallest that fits and its doubles.
// setShare sets the engine's share of the memory.
func fitRows(fit hardware.Fit, tpGiven bool, setShare func(*hardware.Fit)) []fitRow {
	var rows []fitRow
	for tp := 1; tp <= 8; tp *= 2 {
		if !tpGiven {
			fit.TP = tp
		}
		if !fit.Divides() {
			continue
		}
		setShare(&fit)
		b, err := fit.Check()
		row := fitRow{GPU: fit.GPU.Name, Model: fit.Model.Name, TP: fit.TP, PP: fit.PP, DP: fit.DP, GPUs: fit.GPUs(), Fits: err == nil, Budget: b}
		if err != nil {
			row.Note = err.Error()
		}
		if tpGiven {
			return []fitRow{row}
		}
		if err == nil {
			rows = append(rows, row)
		} else if tp == 8 && len(rows) == 0 {
			rows = append(rows, row) // the largest one, to show that it does not fit either
		}
	}
	return rows
}

// writeFits writes a line for each fit.
func writeFits(out io.Writer, rows []fitRow) error {
	t := table.New("GPU", "GPUS", "TP", "USABLE", "WEIGHTS", "OTHER", "KV CACHE", "KV TOKENS", "BLOCKS")
	var refused error
	for _, r := range rows {
		kv, tokens, blocks := formatGiB(r.KV), fmt.Sprint(r.Tokens), fmt.Sprint(r.Blocks)
		if !r.Fits {
			kv, tokens, blocks = "does not fit", "-", "-"
			if len(rows) == 1 {
				refused = cli.Coded(2, "%s", r.Note)
			}
		}
		t.Add(r.GPU, strconv.Itoa(r.GPUs), strconv.Itoa(r.TP), formatGiB(r.Usable), formatGiB(r.Weights),
			formatGiB(r.Activations+r.Graphs+r.Runtime), kv, tokens, blocks)
	}
	if _, err := io.WriteString(out, t.Text()); err != nil {
		return err
	}
	fmt.Fprintln(out, "Sizes: GiB of one GPU. KV tokens: of one worker (with --dp: of one rank).")
	if len(rows) > 0 && rows[0].Rules != "" {
		fmt.Fprintf(out, "Memory rules: %s.\n", rows[0].Rules)
	}
	return refused
}

// formatGiB returns bytes in GiB.
func formatGiB(bytes float64) string { return fmt.Sprintf("%.1f", bytes/hardware.GiB) }
