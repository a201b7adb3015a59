package summary

import (
	"bytes"
	"regexp"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay/collector"
)

// Every line is valid OpenMetrics text, each family occurs once, and runs are samples of one family.
func TestOpenMetrics(t *testing.T) {
	var a, b collector.Report
	a.Requests, b.Requests, a.TTFT.P99, a.WallMS = 3, 4, 1.5e-9, 7
	a.Add(collector.Of("slo_met", true), collector.Of("saturation", "stable"))
	var out bytes.Buffer
	if err := WriteOpenMetrics(&out, []Named{{Name: `out/"a"`, Report: &a}, {Name: "b", Report: &b}}); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{"replay_num_requests{run=\"out/\\\"a\\\"\"} 3\nreplay_num_requests{run=\"b\"} 4\n", "replay_p99_ttft_ms{run=\"out/\\\"a\\\"\"} 1.5e-09\n", "replay_slo_met{run=\"out/\\\"a\\\"\"} 1\n", "# TYPE replay_mean_itl_ms gauge\n# HELP replay_mean_itl_ms "} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if !strings.HasSuffix(text, "# EOF\n") || strings.Contains(text, "wall") || strings.Contains(text, "saturation") {
		t.Errorf("no end, or values that are no gauges of the run:\n%s", text)
	}
	line := regexp.MustCompile(`^(# (TYPE [a-z_][a-z0-9_]* gauge|HELP [a-z_][a-z0-9_]* .+|EOF)|[a-z_][a-z0-9_]*\{run="([^"\\]|\\.)*"\} [0-9.e+-]+)$`)
	types := make(map[string]bool)
	for text := range strings.Lines(text) {
		text = strings.TrimSuffix(text, "\n")
		if !line.MatchString(text) || types[text] {
			t.Errorf("%q", text)
		}
		types[text] = strings.HasPrefix(text, "# TYPE")
	}
}
