// Package summary writes a report in the forms of others: as the result files
// of load generators, and as a table in Markdown.
//
// Read summary.go, then the tools: aiperf.go, vllm.go, sglang.go; markdown.go.
package summary

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"github.com/replay-llm/replay/replay/collector"
)

// Format is whose names a summary has.
type Format uint8

const (
	Native Format = iota
	AIPerf        // aiperf profile: profile_export_aiperf.json
	VLLM          // vllm bench serve --save-result
	SGLang        // python -m sglang.bench_serving --output-file
)

func (f Format) String() string { return [...]string{"native", "aiperf", "vllm", "sglang"}[f] }

// Names are the names of all formats.
func Names() []string {
	var all []string
	for f := Native; f <= SGLang; f++ {
		all = append(all, f.String())
	}
	return all
}

// ParseFormat is the format of the given name.
func ParseFormat(name string) (Format, error) {
	for f := Native; f <= SGLang; f++ {
		if f.String() == name {
			return f, nil
		}
	}
	return 0, fmt.Errorf("report format is %q, want native, aiperf, vllm or sglang", name)
}

// Write writes r as JSON under the names of f.
func Write(w io.Writer, f Format, r *collector.Report) error {
	switch f {
	case AIPerf:
		return writeObject(w, aiperfKeys(r))
	case VLLM:
		return writeObject(w, vllmKeys(r))
	case SGLang:
		return writeObject(w, sglangKeys(r))
	}
	return r.WriteJSON(w)
}

// object is the entries of a file, or of an object in it, in their order.
type object []collector.Field

func (o *object) add(key string, value any) {
	*o = append(*o, collector.Field{Key: key, Value: value})
}

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
