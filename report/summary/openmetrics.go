package summary

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/replay/collector"
)

// WriteOpenMetrics writes the numbers of reports as OpenMetrics text: a gauge replay_KEY per number, with one sample
// per run.
func WriteOpenMetrics(w io.Writer, all []Named) error {
	keys := make(map[string]bool)
	numbers := make([]map[string]float64, len(all))
	for i, one := range all {
		numbers[i] = one.Report.Numbers()
		for key := range numbers[i] {
			keys[key] = keys[key] || !collector.IsWall(key)
		}
	}
	escape := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\n", `\n`)
	var b bytes.Buffer
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		if !keys[key] {
			continue // it depends on how fast the machine is
		}
		fmt.Fprintf(&b, "# TYPE replay_%s gauge\n", key)
		if m, s := collector.Named(key); m != nil {
			text := m.Text
			if s != nil {
				text = s.Text + " of " + text
			}
			fmt.Fprintf(&b, "# HELP replay_%s %s (%s)\n", key, escape.Replace(text), m.Unit)
		}
		for i, one := range all {
			if v, ok := numbers[i][key]; ok && !math.IsNaN(v) {
				fmt.Fprintf(&b, "replay_%s{run=\"%s\"} %s\n", key, escape.Replace(one.Name), strconv.FormatFloat(v, 'g', -1, 64))
			}
		}
	}
	b.WriteString("# EOF\n")
	_, err := w.Write(b.Bytes())
	return err
}
