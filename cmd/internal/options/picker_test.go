package options

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const pickerYAML = `apiVersion: inference.networking.x-k8s.io/v1alpha1
kind: EndpointPickerConfig
featureGates:
  - flowControl
plugins:
  - name: ppc
    type: precise-prefix-cache-scorer
  - type: queue-scorer
  - type: kv-cache-utilization-scorer
  - type: max-score-picker
schedulingProfiles:
  - name: default
    plugins:
      - pluginRef: ppc
        weight: 3.0
      - pluginRef: kv-cache-utilization-scorer
        weight: 2.0
      - pluginRef: queue-scorer
        weight: 2.0
      - pluginRef: max-score-picker
`

// A picker is found as it stands and in the values of a chart, and what is not modelled is
// refused by name.
func TestReadPicker(t *testing.T) {
	path := filepath.Join(t.TempDir(), "router.yaml")
	write := func(text string) {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	chart := "inferenceExtension:\n  pluginsCustomConfig:\n    custom-plugins.yaml: |\n      " + strings.ReplaceAll(pickerYAML, "\n", "\n      ") + "\n"
	for _, text := range []string{pickerYAML, chart} {
		write(text)
		p, err := readPicker(path)
		if err != nil {
			t.Fatal(err)
		}
		if p.Prefix != 3 || p.KV != 2 || p.Queue != 2 || p.Gate == nil || p.Gate.Queue != 5 || p.Gate.KV != 0.8 {
			t.Errorf("picker %+v, gate %+v", p, p.Gate)
		}
	}
	for _, c := range []struct{ text, want string }{
		{"a: 1\n", "no EndpointPickerConfig"},
		{"a: [1\n", path},
		{strings.Replace(pickerYAML, "queue-scorer\n", "lora-affinity-scorer\n", 1), `"queue-scorer" is none of the plugins`},
		{strings.Replace(pickerYAML, "type: precise-prefix-cache-scorer", "type: session-affinity-scorer", 1), `of type "session-affinity-scorer"`},
		{strings.Replace(pickerYAML, "weight: 3.0", "weight: -3.0", 1), "weight of ppc is -3"},
		{strings.Replace(pickerYAML, "schedulingProfiles", "profiles", 1), "0 schedulingProfiles"},
	} {
		write(c.text)
		if _, err := readPicker(path); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
