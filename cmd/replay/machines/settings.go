package machines

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/internal/terminal"
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
	Log     []string    `json:"log,omitempty"`    // names in the logs of servers, as vllm:block_size; ! before a name: its value is the opposite
	Meaning string      `json:"meaning,omitempty"`
}

// NewSettingsCommand returns the command that lists the settings of engines and hardware.
func NewSettingsCommand(s cli.Streams) *cobra.Command {
	cmd := newListCommand(&cobra.Command{
		Use:   "settings [NAME]...",
		Short: "List all settings of a replay, with units, defaults and meanings",
		Long: `List the settings of engines and hardware: the key in --engine-args, the flag,
the unit, the default and the meaning. The list ends with the flags that replay
trace --help-all omits. A NAME is an engine (vllm, sglang or trtllm), or a part
of a key or flag.`,
		Example: "  replay settings sglang\n  replay settings max_num_seqs",
	}, nil)
	cmd.Args = cobra.ArbitraryArgs
	cmd.ValidArgs = engineNames()
	cmd.RunE = func(cmd *cobra.Command, names []string) error {
		if cmd.Flag("output").Value.String() == "json" {
			return cli.WriteJSON(s.Out, listSettings(names))
		}
		text, err := writeSettings(names)
		if err != nil {
			return err
		}
		_, err = io.WriteString(s.Out, text)
		return err
	}
	return cmd
}

// engineNames returns the engines that have settings.
func engineNames() []string { return []string{"vllm", "sglang", "trtllm"} }

// isNamed reports whether names is empty, or a name is the engine of a setting or a part of its key or flag.
func isNamed(r *schema.Row, engine string, names []string) bool {
	return len(names) == 0 || slices.ContainsFunc(names, func(name string) bool {
		if slices.Contains(engineNames(), name) {
			return engine == name
		}
		return strings.Contains(r.Key, name) || strings.Contains(r.Flag, name)
	})
}

// listSettings returns the settings that names select, for programs.
func listSettings(names []string) []settingRow {
	all := []settingRow{}
	for _, r := range options.EngineRows() {
		if !isNamed(&r, r.Only, names) {
			continue
		}
		row := settingRow{r.Key, r.Flag, r.Kind, r.Preset(), r.Unit(), r.Only, strings.Fields(r.Log), r.Meaning()}
		if options.IsHardware(&r) {
			row.Key = ""
		}
		all = append(all, row)
	}
	for _, g := range options.ListFlags() {
		if g.Engines {
			continue
		}
		g.Flags.VisitAll(func(f *pflag.Flag) {
			if r := rowOf(f); !f.Hidden && isNamed(&r, "", names) {
				all = append(all, settingRow{Flag: f.Name, Kind: r.Kind, Default: f.DefValue, Meaning: r.Meaning()})
			}
		})
	}
	return all
}

// rowOf returns a flag that is no engine argument as a setting.
func rowOf(f *pflag.Flag) schema.Row {
	kind := schema.Name
	switch f.Value.Type() {
	case "int", "int64", "uint64":
		kind = schema.Int
	case "float64":
		kind = schema.Real
	case "bool":
		kind = schema.Bool
	}
	return schema.Row{Flag: f.Name, Kind: kind, Help: f.Usage}
}

// writeSettings returns the settings that names select, as text.
func writeSettings(names []string) (string, error) {
	var b strings.Builder
	var known []string
	for _, g := range options.GroupSettings() {
		title := g.Title + ":\n\n"
		for _, r := range g.Rows {
			known = append(known, r.Key, r.Flag)
			if !isNamed(&r, g.Engine, names) {
				continue
			}
			b.WriteString(title + terminal.WrapText("  "+headOf(&r)+"\n", 2) + terminal.WrapText("      "+strings.ReplaceAll(r.Meaning(), "`", "")+"\n", 0))
			title = ""
		}
		if title == "" {
			b.WriteString("\n")
		}
	}
	for _, g := range options.ListFlags() {
		if g.Engines {
			continue
		}
		title := g.Title + ":\n\n"
		g.Flags.VisitAll(func(f *pflag.Flag) {
			if f.Hidden {
				return
			}
			known = append(known, f.Name)
			if r := rowOf(f); isNamed(&r, "", names) {
				head := "  --" + f.Name
				if f.DefValue != "" && f.DefValue != "[]" {
					head += " (default " + f.DefValue + ")"
				}
				b.WriteString(title + terminal.WrapText(head+"\n", 2) + terminal.WrapText("      "+strings.ReplaceAll(f.Usage, "`", "")+"\n", 0))
				title = ""
			}
		})
		if title == "" {
			b.WriteString("\n")
		}
	}
	if b.Len() == 0 {
		return "", cli.Usagef("%s: no such setting, must be a part of a key or a flag, or %s%s", strings.Join(names, " "), cli.Either(engineNames()), nearest.Ask(names[0], known))
	}
	return strings.TrimSuffix(b.String(), "\n"), nil
}

// headOf returns the names of a setting with its unit and default.
func headOf(r *schema.Row) string {
	names := r.Key
	switch {
	case names == "":
		names = "--" + r.Flag
	case r.Flag != "":
		names += ", --" + r.Flag
	}
	var facts []string
	if unit := r.Unit(); unit != "" {
		facts = append(facts, unit)
	}
	if preset := strings.ReplaceAll(r.DefaultText(), "`", ""); preset != "" {
		facts = append(facts, "default "+preset)
	}
	if len(facts) == 0 {
		return names
	}
	return fmt.Sprintf("%s (%s)", names, strings.Join(facts, "; "))
}
