// Package machines holds the commands fit, gpus, models, settings and init.
package machines

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/table"
	"github.com/replay-llm/replay/scheduler/hardware"
)

// newListCommand returns a command that prints a list, as a table or as JSON.
func newListCommand(cmd *cobra.Command, list func(output string) error, more ...func(*pflag.FlagSet)) *cobra.Command {
	var output cli.Choice
	cmd.Args = cli.NoArgs
	cmd.RunE = func(*cobra.Command, []string) error { return list(output.Value) }
	return cli.BindOwn(cmd, func(fs *pflag.FlagSet) {
		cli.BindForm(fs, &output)
		for _, bind := range more {
			bind(fs)
		}
	})
}

// NewGPUsCommand returns the command that lists GPUs.
func NewGPUsCommand(s cli.Streams) *cobra.Command {
	return newListCommand(&cobra.Command{
		Use:   "gpus",
		Short: "List the GPUs for --gpu",
		Long: `List the GPUs with known data sheets. Rates are for dense matrix products.
Prices are rough on-demand defaults for one GPU and one hour; --gpu-cost
overrides them. --gpu-file adds GPUs from a file in the format of --output json.`,
		Example: "  replay gpus\n  replay gpus --output json > mine.json",
	}, func(output string) error {
		if output == "json" {
			return cli.WriteJSON(s.Out, hardware.GPUs())
		}
		t := table.New("GPU", "GiB", "GB/s", "bf16 TFLOP/s", "fp8", "fp4", "link GB/s", "USD/h")
		for _, g := range hardware.GPUs() {
			t.Add(g.Name, formatFixed(g.MemoryGiB, 1), formatFixed(g.Bandwidth, 0), formatFixed(g.BF16, 0), orDash(g.FP8), orDash(g.FP4), formatFixed(g.Link, 0), formatFixed(g.Price, 2))
		}
		_, err := io.WriteString(s.Out, t.Text())
		return err
	})
}

// NewModelsCommand returns the command that lists models.
func NewModelsCommand(s cli.Streams) *cobra.Command {
	wide := false
	return newListCommand(&cobra.Command{
		Use:   "models",
		Short: "List the models for --model",
		Long: `List the models with known shapes: parameters in billions (all, and active per
token), bytes of KV cache per token of a short sequence, and MiB of state per
sequence for models with linear layers. --wide adds the source of each
configuration. --model also accepts the path of any config.json.`,
		Example: "  replay models\n  replay fit --model ./my-model/config.json",
	}, func(output string) error {
		rows := modelRows()
		if output == "json" {
			return cli.WriteJSON(s.Out, rows)
		}
		t := table.NewLeft("MODEL", "WEIGHTS B", "ACTIVE B", "KV KiB/TOKEN", "STATE MiB", "CONTEXT", "SOURCE")
		t.Flush = true
		for _, m := range rows {
			state := "-"
			if m.State > 0 {
				state = fmt.Sprintf("%.1f", m.State/(1<<20))
			}
			t.Add(m.Name, formatFixed(m.Weights, 2), formatFixed(m.Active, 2), formatFixed(m.KVBytes/1024, 1), state, strconv.Itoa(m.Context), m.Source)
		}
		if !wide {
			t.Remove(6)
		}
		_, err := io.WriteString(s.Out, t.Text())
		return err
	}, func(fs *pflag.FlagSet) { fs.BoolVar(&wide, "wide", false, "also print where models are published") })
}

// modelRow is a row of the list of models.
type modelRow struct {
	Name    string  `json:"name"`
	Family  string  `json:"model_type"`
	Weights float64 `json:"weights_billions"`
	Active  float64 `json:"active_billions"`
	KVBytes float64 `json:"kv_bytes_per_token"`
	State   float64 `json:"state_bytes_per_sequence,omitempty"`
	Context int     `json:"max_position_embeddings"`
	Source  string  `json:"source"`
}

func modelRows() []modelRow {
	var rows []modelRow
	for _, m := range hardware.Models() {
		f := hardware.Fit{Model: m, TP: 1, PP: 1, DP: 1}
		rows = append(rows, modelRow{m.Name, m.Family, m.Params() / 1e9, m.Active() / 1e9, f.CacheBytesPerToken(), f.StateBytes(), m.Context, m.Source})
	}
	return rows
}

// formatFixed returns a number with the given count of digits after the point.
func formatFixed(v float64, digits int) string { return strconv.FormatFloat(v, 'f', digits, 64) }

// orDash returns a rate, or a dash if there is none.
func orDash(rate float64) string {
	if rate == 0 {
		return "-"
	}
	return fmt.Sprintf("%.0f", rate)
}
