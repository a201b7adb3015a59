package main

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/report/rundir"
	"github.com/replay-llm/replay/report/slo"
	"github.com/replay-llm/replay/report/summary"
)

// outputs holds the flags that say what a run leaves besides its report.
type outputs struct {
	requests         string
	dir              string
	form             choice
	overwrite, force bool
	digest, passes   bool
	slo              objectives
	attainment       float64
	sloExit          bool
	names            choice
}

func (out *outputs) bind(fs *pflag.FlagSet) {
	out.form = choice{names: []string{"parquet", "jsonl", "csv"}, value: "parquet"}
	out.names = choice{names: summary.Names(), value: "native"}
	fs.Var(&out.names, "report-format", "`names` of the values in the JSON report: native, or those of aiperf, vllm\nor sglang, the load generators")
	fs.StringVar(&out.requests, "requests", "", "write a row per request to `FILE`, as its name ends: .parquet, .jsonl or .csv")
	fs.StringVar(&out.dir, "out", "", "write report, requests and what the run was made of to a new `DIR`")
	fs.Var(&out.form, "requests-format", "`form` of the requests in --out: parquet, jsonl or csv")
	fs.BoolVar(&out.overwrite, "overwrite", false, "let --out replace another run")
	fs.BoolVar(&out.force, "force", false, "let --out replace whatever is there")
	fs.BoolVar(&out.passes, "passes", false, "also write every pass to --out")
	fs.BoolVar(&out.digest, "digest", false, "print a hash of inputs, configuration and what happened to each request")
	fs.Var(&out.slo, "slo", "`objectives`, as ttft=500ms,itl=30ms for each request, p99:ttft=2s for all of them")
	fs.Float64Var(&out.attainment, "slo-attainment", 1, "`share` of requests that must meet the objectives of each, 0 to 1")
	fs.BoolVar(&out.sloExit, "slo-exit", false, "end with exit code 6 when an objective is missed")
}

// objectives is a flag of --slo's kind.
type objectives struct {
	all  []slo.Objective
	text string
}

func (o *objectives) String() string { return o.text }
func (o *objectives) Type() string   { return "objectives" }

func (o *objectives) Set(text string) error {
	all, err := slo.Parse(text)
	if err != nil {
		return errors.New("want objectives: " + err.Error())
	}
	*o = objectives{all, text}
	return nil
}

// checkOutputs refuses flags of no effect and places that cannot be written.
func (o *options) checkOutputs(spec *replay.Spec) error {
	out := &o.outputs
	for _, r := range []struct {
		holds bool
		where string
		flags []string
	}{
		{out.dir != "", "with --out", []string{"requests-format", "overwrite", "force", "passes"}},
		{len(out.slo.all) > 0, "with --slo", []string{"slo-attainment", "slo-exit"}},
		{o.changed("report-json") || o.output.form.value == "json", "with --report-json or --output json", []string{"report-format"}},
	} {
		if name := o.firstChanged(r.flags...); name != "" && !r.holds {
			return o.only(name, r.where)
		}
	}
	if !(out.attainment >= 0 && out.attainment <= 1) {
		return o.refuse("slo-attainment", "0 to 1")
	}
	if out.requests != "" {
		if _, err := requests.FormatOf(out.requests); err != nil {
			return o.refuse("requests", "a name that ends in .parquet, .jsonl or .csv")
		}
	}
	if out.dir != "" {
		return rundir.Check(out.dir, out.replace())
	}
	return nil
}

// replace says what --out may take the place of.
func (out *outputs) replace() rundir.Replace {
	switch {
	case out.force:
		return rundir.ReplaceAnything
	case out.overwrite:
		return rundir.ReplaceRun
	}
	return rundir.ReplaceNothing
}

// jsonOf writes r under the names that were asked for.
func (o *options) jsonOf(r *collector.Report) func(io.Writer) error {
	return func(w io.Writer) error {
		f, err := summary.ParseFormat(o.outputs.names.value)
		if err != nil {
			return err
		}
		return summary.Write(w, f, r)
	}
}

// close says below the report what else there is, and ends the run.
func (o *options) close(s streams, rec *recording) error {
	if rec == nil {
		return nil
	}
	to := s.out
	if o.output.form.value == "json" {
		to = s.err
	}
	for _, line := range rec.lines {
		if _, err := fmt.Fprintln(to, line); err != nil {
			return err
		}
	}
	return rec.end()
}
