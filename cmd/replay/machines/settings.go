package machines

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/schema"
)

// settingRow is a setting of engines or hardware, as programs read it.
type settingRow struct {
	Key     string      `json:"key,omitempty"`  // in --engine-args, with dots between objects; "": it has none
	Flag    string      `json:"flag,omitempty"` // without dashes; "": it has none
	Kind    schema.Kind `json:"kind"`
	Default string      `json:"default,omitempty"` // in words
	Unit    string      `json:"unit,omitempty"`
	Engine  string      `json:"engine,omitempty"` // the only one that reads it; "": all
	Log     []string    `json:"log,omitempty"`    // names in the logs of servers, as vllm:block_size; with ! its opposite
}

// NewSettingsCommand makes the hidden command that prints the declared settings of engines and hardware as JSON.
func NewSettingsCommand(s cli.Streams) *cobra.Command {
	return cli.BindGroups(&cobra.Command{
		Use: "settings", Short: "Print the settings of engines and hardware as JSON", Hidden: true, Args: cli.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			var all []settingRow
			for _, r := range options.EngineRows() {
				row := settingRow{r.Key, r.Flag, r.Kind, r.Preset(), r.Unit(), r.Only, strings.Fields(r.Log)}
				if options.IsHardware(&r) {
					row.Key = ""
				}
				all = append(all, row)
			}
			return cli.WriteJSON(s.Out, all)
		},
	})
}
