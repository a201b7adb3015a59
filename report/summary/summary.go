// Package summary writes a report in the forms of other tools: the result files of load generators, OpenMetrics, and
// a Markdown table.
//
// Read summary.go, then tools.go (the names of other tools) and markdown.go.
package summary

import (
	"bytes"
	"io"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/replay/collector"
)

// Names returns the forms of the names in a summary: native names, and the names of aiperf profile
// (profile_export_aiperf.json), of vllm bench serve --save-result and of python -m sglang.bench_serving
// --output-file.
func Names() []string { return []string{"native", "aiperf", "vllm", "sglang"} }

// Write writes r as JSON with the names of one form of Names.
func Write(w io.Writer, names string, r *collector.Report) error {
	switch names {
	case "native":
		return r.WriteJSON(w)
	case "aiperf":
		return writeObject(w, aiperfKeys(r))
	case "vllm":
		return writeObject(w, vllmKeys(r))
	case "sglang":
		return writeObject(w, sglangKeys(r))
	}
	return excerpt.Errorf("report format is %q, must be native, aiperf, vllm or sglang", names)
}

// object holds the entries of a JSON object, in order.
type object []collector.Field

func (o *object) add(fields ...collector.Field) { *o = append(*o, fields...) }

func writeObject(w io.Writer, o object) error {
	text, err := collector.AppendObject(nil, o)
	if err != nil {
		return err
	}
	var out bytes.Buffer
	if err := json.Indent(&out, text, "", "  "); err != nil {
		return err
	}
	out.WriteByte('\n')
	_, err = w.Write(out.Bytes())
	return err
}
