package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/offline"
)

// output holds the flags that say where the report goes.
type output struct {
	path    string
	form    choice
	drawing drawing
}

func (out *output) bind(fs *pflag.FlagSet) {
	out.form = choice{names: []string{"table", "json"}, value: "table"}
	fs.StringVar(&out.path, "report-json", "", "also write the report to `FILE`; in a directory, to a file named after the time")
	fs.Var(&out.form, "output", "`form` of the report on standard output: table or json")
	out.drawing.bind(fs)
}

// write writes the report file, if one is wanted, and then the report on
// standard output. What a table does not say of requests is said below it.
func (o *options) write(s streams, result *offline.Result, total int) error {
	r := result.Report
	text := collector.Text{}
	if o.changed("report-json") {
		path, err := collector.ResolvePath(o.output.path, time.Now())
		if err != nil {
			return fmt.Errorf("--report-json: %w", err)
		}
		if err := collector.WriteFile(path, o.jsonOf(r)); err != nil {
			return fmt.Errorf("--report-json: %w", err)
		}
		text.Saved = path
	}
	missing := o.missing(result, total)
	if o.output.form.value == "json" {
		for _, line := range missing {
			fmt.Fprintf(s.err, "replay: %s\n", line)
		}
		return o.jsonOf(r)(s.out)
	}
	if err := r.WriteText(s.out, text); err != nil || len(missing) == 0 {
		return err
	}
	_, err := io.WriteString(s.out, strings.Join(missing, "\n")+"\n")
	return err
}

// missing says how many of total requests the report is not about, and why.
func (o *options) missing(result *offline.Result, total int) []string {
	var lines []string
	if n := len(result.Rejected); n > 0 {
		lines = append(lines, fmt.Sprintf("Rejected: %d of %d requests", n, total))
	}
	if result.Partial && (o.isLive() || o.isCluster()) {
		lines = append(lines, fmt.Sprintf("Ended early: %d of %d requests unfinished", unfinished(result, total), total))
	} else if result.Partial {
		at := strconv.FormatFloat(float64(o.limits.until.at), 'f', -1, 64)
		lines = append(lines, fmt.Sprintf("Ended at %s ms: %d of %d requests unfinished", at, unfinished(result, total), total))
	}
	return lines
}
