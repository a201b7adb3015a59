package options

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
)

// The contents of a faults file give the same run as its path.
func TestFaultsInPlaceOfAFile(t *testing.T) {
	const text = "{on_loss: retry, faults: [{at: 10s, worker: 1, what: dies, back: 60s}]}"
	path := filepath.Join(t.TempDir(), "f.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var both [2]replay.Spec
	for i, value := range []string{path, text} {
		o, file, mode, err := OptionsOf([]plan.Setting{{Name: TraceSetting, Value: "-"}, {Name: "workers", Value: "2"}, {Name: "faults", Value: value}})
		if err == nil {
			both[i], err = o.Spec(file, mode)
		}
		if err != nil {
			t.Fatalf("%s: %v", value, err)
		}
	}
	if both[0].Faults == nil || !reflect.DeepEqual(both[0].Faults, both[1].Faults) {
		t.Errorf("%+v in a file, %+v in its place", both[0].Faults, both[1].Faults)
	}
	for _, c := range [][2]string{{"[{at: 10s, worker: 2, what: dies}]", "--faults: fault 1: worker 2, must be 0 to 1"}, {"[{at: x", "--faults:1: "}, {"{}", "--faults: no faults"}} {
		o, file, mode, err := OptionsOf([]plan.Setting{{Name: TraceSetting, Value: "-"}, {Name: "workers", Value: "2"}, {Name: "faults", Value: c[0]}})
		if err == nil {
			_, err = o.Spec(file, mode)
		}
		if err == nil || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, want %s", c[0], err, c[1])
		}
	}
}
