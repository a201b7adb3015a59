// Package dropin converts command lines of vllm serve and sglang.launch_server to command lines of replay vllm and
// replay sglang.
//
// The files vllm.txt and sglang.txt have a line for each flag of the engines.
package dropin

import (
	_ "embed"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/scheduler/hardware"
)

//go:embed vllm.txt
var vllmFlags string

//go:embed sglang.txt
var sglangFlags string

// flag is a flag of an engine with its class: how Translate treats the flag.
type flag struct{ name, values, class, text string }

// parseFlags returns the flags of a table by name.
func parseFlags(table string) map[string]flag {
	all := map[string]flag{}
	for line := range strings.Lines(table) {
		if parts := append(strings.SplitN(strings.TrimSpace(line), " ", 4), ""); parts[0] != "#" {
			all[parts[0]] = flag{parts[0], parts[1], parts[2], parts[3]}
		}
	}
	return all
}

// Line is a command line of replay.
type Line struct {
	Args     []string
	Warnings []string
}

// translation is the state of one call of Translate.
type translation struct {
	engine string          // vllm or sglang
	flags  map[string]flag // flags of the engine
	own    *pflag.FlagSet  // flags of the replay command
	values map[string]string
	order  []string // names of values in the order of their first use
	model  string
	passed []string // flags without effect
	notes  []string
}

// Translate converts the arguments of an engine's server to a command line of replay vllm or replay sglang. The
// arguments may also contain flags of the replay command, own.
func Translate(engine string, args []string, own *pflag.FlagSet) (*Line, error) {
	t := &translation{engine: engine, own: own, flags: parseFlags(map[string]string{"vllm": vllmFlags, "sglang": sglangFlags}[engine]), values: map[string]string{}}
	for len(args) > 0 {
		used, err := t.readFlag(args)
		if err != nil {
			return nil, err
		}
		args = args[used:]
	}
	if err := t.chooseModel(); err != nil {
		return nil, err
	}
	l := &Line{Warnings: t.notes}
	if len(t.passed) > 0 {
		l.Warnings = append(l.Warnings, "no effect on a simulated engine: "+strings.Join(t.passed, ", "))
	}
	for _, name := range t.order {
		if value, ok := t.values[name]; ok {
			l.Args = append(l.Args, name+"="+value)
		}
	}
	return l, nil
}

// set sets a flag of the replay command. A later value replaces an earlier one.
func (t *translation) set(name, value string) {
	if _, given := t.values[name]; !given {
		t.order = append(t.order, name)
	}
	t.values[name] = value
}

// readFlag reads a flag with its values, or the name of the model. readFlag returns the number of arguments read.
func (t *translation) readFlag(args []string) (used int, err error) {
	name, value, given := strings.Cut(args[0], "=")
	if !strings.HasPrefix(name, "-") {
		if t.model != "" {
			return 0, cli.Usagef("%s: the model is %s already", args[0], t.model)
		}
		t.model = args[0]
		return 1, nil
	}
	if strings.HasPrefix(name, "-O") && t.engine == "vllm" {
		name, value, given = "-O", strings.TrimPrefix(args[0], "-O"), args[0] != "-O"
	}
	name = strings.ReplaceAll(name, "_", "-")
	f, known := t.flags[name]
	if !known {
		if dot := strings.IndexByte(name, '.'); dot > 0 { // the flag sets a key of a JSON object
			if f, known = t.flags[name[:dot]]; known && f.class != "pass" {
				return 0, cli.Usagef("%s: requires the whole JSON object in %s", name, f.name)
			}
			f.values = "1"
		}
	}
	if own := t.own.Lookup(strings.TrimPrefix(name, "--")); !known && own != nil {
		f, known = flag{name: name, values: "1", class: "use", text: name}, true
		if own.NoOptDefVal != "" {
			f.values = "0"
		}
	}
	if !known { // the engines accept unique prefixes of flags
		var longer []string
		for _, full := range t.names() {
			if strings.HasPrefix(full, name) && strings.HasPrefix(name, "--") {
				longer = append(longer, full)
			}
		}
		if len(longer) == 1 {
			f, known = t.flags[longer[0]], true
		}
	}
	if !known {
		return 0, cli.Usagef("%s: no flag of %s or of replay %s%s", name, t.tool(), t.engine, nearest.Ask(name, t.names()))
	}
	values := []string{}
	if given {
		values = append(values, value)
	}
	rest := args[1:]
	for !given && len(rest) > 0 && f.values != "0" && (f.values == "1" && len(values) == 0 || !strings.HasPrefix(rest[0], "-") && (f.values == "+" || len(values) == 0)) {
		values, rest = append(values, rest[0]), rest[1:]
	}
	if len(values) == 0 && (f.values == "1" || f.values == "+") {
		return 0, cli.Usagef("%s: requires a value", name)
	}
	return len(args) - len(rest), t.apply(f, values)
}

func (t *translation) tool() string {
	if t.engine == "sglang" {
		return "sglang.launch_server"
	}
	return "vllm serve"
}

func (t *translation) names() (all []string) {
	for name := range t.flags {
		all = append(all, name)
	}
	slices.Sort(all)
	return all
}

// apply converts a flag according to its class.
func (t *translation) apply(f flag, values []string) error {
	switch f.class {
	case "refuse":
		return cli.Usagef("%s: not supported: %s", f.name, f.text)
	case "only":
		list, reason, _ := strings.Cut(f.text, ": ")
		if !slices.Contains(strings.Fields(list), values[0]) {
			return cli.Usagef("%s=%s: must be %s: %s", f.name, values[0], cli.Either(strings.Fields(list)), reason)
		}
		return nil
	case "pass":
		if f.name == "--tokenizer" && strings.HasSuffix(values[0], ".json") {
			t.set(f.name, values[0])
			return nil
		}
		text := f.name
		if f.text != "" {
			text += " (" + f.text + ")"
		}
		if !slices.Contains(t.passed, text) {
			t.passed = append(t.passed, text)
		}
		return nil
	}
	if own, fixed, ok := strings.Cut(f.text, "="); ok {
		t.set(own, fixed)
		return nil
	}
	if f.values == "0" {
		values = []string{"true"}
	}
	switch f.name {
	case "--model", "--model-path":
		t.model = values[0]
		return nil
	case "--max-model-len", "--max-num-batched-tokens":
		values[0] = readNumber(values[0])
	case "--shutdown-timeout":
		values[0] += "s"
	case "--lora-modules":
		for i := range values {
			values[i] = adapterName(values[i])
		}
	}
	t.set(f.text, strings.Join(values, ","))
	return nil
}

// readNumber expands the suffixes that vLLM supports: 1k is 1000, and 1K is 1024. readNumber returns any other text
// unchanged.
func readNumber(text string) string {
	units := map[byte]float64{'k': 1e3, 'm': 1e6, 'g': 1e9, 't': 1e12, 'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30, 'T': 1 << 40}
	if text == "" || units[text[len(text)-1]] == 0 {
		return text
	}
	n, err := strconv.ParseFloat(text[:len(text)-1], 64)
	if err != nil {
		return text
	}
	return strconv.FormatFloat(n*units[text[len(text)-1]], 'f', 0, 64)
}

// adapterName returns the name of an adapter in NAME=PATH or in a JSON object.
func adapterName(text string) string {
	var object struct {
		Name string `json:"name"`
	}
	if json.Unmarshal([]byte(text), &object) == nil && object.Name != "" {
		return object.Name
	}
	name, _, _ := strings.Cut(text, "=")
	return name
}

// defaultGPU is the GPU that is used without --gpu, if the tables contain the model.
const defaultGPU = "h100"

// hardwareFlags returns the flags that require a GPU and a model.
func hardwareFlags() []string {
	return []string{"--tp", "--pp", "--ep", "--graphs", "--gpu-memory-utilization", "--kv-cache-dtype"}
}

// chooseModel sets the model, and the GPU if the operator tables contain the model.
func (t *translation) chooseModel() error {
	if t.model == "" {
		if t.engine == "sglang" {
			return cli.Usagef("--model-path: requires a value")
		}
		t.model = "Qwen/Qwen3-0.6B" // default model of vLLM
	}
	if t.values["--served-model-name"] == "" {
		t.set("--served-model-name", t.model)
	}
	if v, given := t.values["--max-loras"]; given && t.values["--lora-modules"] == "" && t.values["--enable-lora"] == "" {
		delete(t.values, "--max-loras")
		t.passed = append(t.passed, "--max-loras="+v+" (requires --enable-lora)")
	}
	length := map[string]string{"vllm": "--max-model-len", "sglang": "--context-length"}[t.engine]
	m, err := hardware.FindModel(t.model)
	if err != nil && t.values["--gpu"] != "" {
		return cli.Usagef("%v", err)
	}
	if v := t.values[length]; v == "auto" || v == "-1" {
		delete(t.values, length)
	}
	if err != nil {
		t.notes = append(t.notes, t.model+" is no model that replay models lists: passes take the built-in times")
		for _, name := range hardwareFlags() {
			if _, given := t.values[name]; given {
				delete(t.values, name)
				t.passed = append(t.passed, name+" (requires a known model)")
			}
		}
		return nil
	}
	t.set("--model", t.model)
	if t.values["--gpu"] == "" {
		t.set("--gpu", defaultGPU)
		t.notes = append(t.notes, "--gpu is not set: the engine is simulated on "+defaultGPU)
	}
	if t.values[length] == "" && m.Context > 0 {
		t.set(length, strconv.Itoa(m.Context))
	}
	return nil
}
