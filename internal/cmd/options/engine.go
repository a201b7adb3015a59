package options

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/schema"
)

// engine has the flags for engines and their hardware.
type engine struct {
	Flags []*schema.Flag
	// Own has the flags for one pool: prefill workers, then decode workers.
	Own [2][]*schema.Flag

	rows []schema.Row // rows for the flags, in the order of the help; nil: the rows of EngineRows
}

// EngineRows returns the settings of hardware and of engines.
func EngineRows() []schema.Row { return append(hardware.Settings(), engineargs.Rows()...) }

// SettingGroup is a section of the list of settings.
type SettingGroup struct {
	Title  string
	Engine string // the only engine that reads the settings; "": all engines
	Rows   []schema.Row
}

// GroupSettings returns all settings with a description, grouped by engine. The Key of hardware settings is "".
func GroupSettings() []SettingGroup {
	all := []SettingGroup{
		{Title: "All engines"}, {Title: "vLLM", Engine: "vllm"}, {Title: "Speculative decoding (members of speculative_config)", Engine: "vllm"},
		{Title: "Rules of vLLM's scheduler (members of scheduler_rules)", Engine: "vllm"}, {Title: "SGLang", Engine: "sglang"},
		{Title: "TensorRT-LLM", Engine: "trtllm"}, {Title: schema.NoEffect},
	}
	for _, r := range EngineRows() {
		if r.Meaning() == "" {
			continue
		}
		draft, isDraft := strings.CutPrefix(r.Key, "speculative_config.")
		rule, isRule := strings.CutPrefix(r.Key, "scheduler_rules.")
		at := slices.IndexFunc(all, func(g SettingGroup) bool { return g.Engine == r.Only })
		switch {
		case isDraft && r.Doc.Part == "":
			r.Key, at = draft, 2
		case isRule:
			r.Key, at = rule, 3
		case r.Doc.Part != "":
			at = slices.IndexFunc(all, func(g SettingGroup) bool { return g.Title == r.Doc.Part })
		case IsHardware(&r):
			r.Key = ""
		}
		all[at].Rows = append(all[at].Rows, r)
	}
	return all
}

// EngineFlags returns the flags for engines and their hardware, in the order of the help.
func EngineFlags() []*schema.Flag { return schema.NewFlags(schema.InHelp(EngineRows())) }

// BindFlags adds flags to fs.
func BindFlags(fs *pflag.FlagSet, flags []*schema.Flag) {
	for _, f := range flags {
		flag := &pflag.Flag{Name: f.Flag, Usage: f.Help, Value: f, DefValue: f.Preset()}
		if f.Kind == schema.Bool {
			flag.NoOptDefVal = "true"
		}
		fs.AddFlag(flag)
	}
}

// poolNames returns the names of the pools, which are prefixes of flags.
func poolNames() [2]string { return [2]string{"prefill", "decode"} }

func (e *engine) bindFlags(fs *pflag.FlagSet) {
	if e.rows == nil {
		e.rows = schema.InHelp(EngineRows())
	}
	e.Flags = schema.NewFlags(e.rows)
	BindFlags(fs, e.Flags)
	for i, pool := range poolNames() {
		e.Own[i] = poolFlags(fs, e.Flags, pool)
		BindFlags(fs, e.Own[i])
		for _, f := range e.Own[i] {
			fs.Lookup(f.Flag).Hidden = true
		}
	}
}

// poolFlags returns the flags that can be set for one pool. The decode pool has no flag for its speedup, because
// --decode-speedup-ratio already sets it.
func poolFlags(fs *pflag.FlagSet, all []*schema.Flag, pool string) []*schema.Flag {
	var own []*schema.Flag
	for _, f := range all {
		row := f.Row
		row.Flag = pool + "-" + row.Flag
		if !row.Alike && fs.Lookup(row.Flag) == nil {
			own = append(own, &schema.Flag{Row: row})
		}
	}
	return own
}

// settingValues returns the given flags as engine arguments.
func settingValues(flags []*schema.Flag) []engineargs.Setting {
	var all []engineargs.Setting
	for _, f := range schema.Given(flags) {
		if IsHardware(&f.Row) {
			continue
		}
		all = append(all, engineargs.Setting{Key: f.Sets, Value: f.JSON})
		if f.Sets == "block_size" { // SGLang may use another name for this argument
			all = append(all, engineargs.Setting{Key: "sglang.page_size", Value: f.JSON})
		}
	}
	return all
}
