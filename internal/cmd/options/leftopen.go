package options

import (
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/loadgen/formats"
	"github.com/replay-llm/replay/loadgen/formats/tables"
)

// leftOpenTitle is the heading of the flags of LeftOpen in the help.
const leftOpenTitle = "Reading of trace files (docs/traces.md)"

// LeftOpen has the flags for properties that trace files do not contain.
type LeftOpen struct {
	zero, sessions, dag, jitter cli.Choice
	read                        formats.LeftOpen
	skipBad                     string
	span                        string
	dates                       string // format of dates; "": as --columns has it
	prefix                      string // prefix of flags with names that have another meaning for a replay
}

// Bind adds the flags to fs. prefix is the prefix of the names that replay commands use for other flags.
func (f *LeftOpen) Bind(fs *pflag.FlagSet, prefix string) {
	o := &f.read
	f.prefix = prefix
	f.zero = cli.Choice{Names: []string{"drop", "one", "error"}, Value: "drop"}
	f.sessions = cli.Choice{Names: []string{"auto", "flat", "chain"}, Value: "auto"}
	f.dag = cli.Choice{Names: []string{"auto", "graph", "chain", "refuse"}, Value: "auto"}
	f.jitter = cli.Choice{Names: []string{"none", "second"}, Value: "none"}
	fs.StringVar(&f.skipBad, "skip-bad", "0", "skip and list bad rows, at most `N`, or any number with all; not for format mooncake")
	fs.Lookup("skip-bad").NoOptDefVal = "all"
	fs.StringVar(&o.Columns, "columns", "", "`columns` of any CSV or JSONL file: arrival=time,input=prompt,output=answer")
	fs.StringVar(&f.dates, "arrival-format", "", "`format` of the dates in the arrival column of --columns, as for strptime: %d/%m/%Y %H:%M:%S")
	fs.StringVar(&o.PriorityFrom, "priority-from", "", "`field` with the priority of a request, if it is not named priority (mooncake)")
	fs.Var(&f.zero, "zero-output", "handling of requests for 0 output tokens: `drop` (and count), one (output token) or error")
	fs.Var(&f.sessions, "session-mode", "dependencies of requests: flat (none), chain (a request waits for the previous request of its conversation) or auto (by the `format`)")
	fs.Var(&f.dag, "dag", "handling of requests that wait for or start several requests: refuse, `chain` (keep only chains), graph (keep all) or auto (graph if supported)")
	fs.StringVar(&o.AssumePrefix, "assume-prefix", "none", "`prefixes` that prompts are assumed to share: system:TOKENS, groups:N:RATIO, session or none")
	fs.StringVar(&o.Tokenizer, "tokenizer", "", "tokenizer.json `FILE` (BPE) that counts the tokens of texts")
	fs.Float64Var(&o.TokensPerByte, "tokens-per-byte", 0, "estimate the tokens of texts by this `ratio` of tokens per byte")
	fs.IntVar(&o.OutputTokens, "output-len", 0, "number of answer `tokens` of requests without an output length")
	fs.StringVar(&o.Model, prefix+"model", "", "read only requests to the model of this `name` (burstgpt)")
	fs.Var(&f.jitter, "jitter", "`second`: spread requests with the same second evenly over that second (burstgpt, vllm-log)")
	fs.IntVar(&o.Run, prefix+"run", 0, "`number` of the run to read, from 1, in files with several runs")
	fs.IntVar(&o.ImageTokens, "image-tokens", 0, "number of prompt `tokens` per image (azure-mm)")
	fs.Float64Var(&o.Rate, "arrival-rate", 0, "arrival rate in `requests/s` for files without arrival times; servegen: a factor of the rate")
	fs.StringVar(&f.span, "servegen-span", "", "range `FROM:TO` in seconds of the servegen clients to read")
}

// Values returns the values of the flags, or an error if they are incompatible.
func (f *LeftOpen) Values() (formats.LeftOpen, error) {
	o := f.read
	for _, c := range []struct {
		choice *cli.Choice
		to     *string
		unset  string
	}{{&f.zero, &o.ZeroOutput, "drop"}, {&f.sessions, &o.Sessions, "auto"}, {&f.dag, &o.DAG, "auto"}, {&f.jitter, &o.Jitter, "none"}} {
		if *c.to = c.choice.Value; *c.to == c.unset {
			*c.to = ""
		}
	}
	if err := tables.CheckColumns(o.Columns); err != nil {
		return o, cli.Usagef("--columns=%s: %v", o.Columns, err)
	}
	if err := f.addDates(&o); err != nil {
		return o, err
	}
	if o.AssumePrefix == "none" {
		o.AssumePrefix = ""
	}
	switch n, err := strconv.Atoi(f.skipBad); {
	case f.skipBad == "all":
		o.SkipBad = -1
	case err != nil || n < 0:
		return o, cli.Usagef("--skip-bad=%s: must be a number of rows, or all", f.skipBad)
	default:
		o.SkipBad = n
	}
	for _, b := range []struct {
		name  string
		value float64
	}{
		{"output-len", float64(o.OutputTokens)}, {f.prefix + "run", float64(o.Run)},
		{"image-tokens", float64(o.ImageTokens)}, {"arrival-rate", o.Rate}, {"tokens-per-byte", o.TokensPerByte},
	} {
		if !(b.value >= 0 && b.value <= 1e18) {
			return o, cli.Usagef("--%s=%v: must be at least 0", b.name, b.value)
		}
	}
	if o.Tokenizer != "" && o.TokensPerByte != 0 {
		return o, cli.Usagef("--tokenizer counts tokens: remove --tokens-per-byte")
	}
	return o, f.readSpan(&o)
}

// addDates adds --arrival-format to the columns.
func (f *LeftOpen) addDates(o *formats.LeftOpen) error {
	if f.dates == "" {
		return nil
	}
	if o.Columns == "" {
		return cli.Usagef("--arrival-format requires --columns arrival=COLUMN,input=COLUMN,output=COLUMN")
	}
	o.Columns += `,"arrival_format=` + strings.ReplaceAll(f.dates, `"`, `""`) + `"`
	if err := tables.CheckColumns(o.Columns); err != nil {
		return cli.Usagef("--arrival-format=%s: %v", f.dates, err)
	}
	return nil
}

// readSpan parses --servegen-span.
func (f *LeftOpen) readSpan(o *formats.LeftOpen) error {
	if f.span == "" {
		return nil
	}
	from, to, ok := strings.Cut(f.span, ":")
	var err1, err2 error
	o.From, err1 = strconv.ParseFloat(from, 64)
	o.To, err2 = strconv.ParseFloat(to, 64)
	if !ok || err1 != nil || err2 != nil || !(o.From >= 0) || !(o.To > o.From) {
		return cli.Usagef("--servegen-span=%s: must be FROM:TO in seconds", f.span)
	}
	return nil
}
