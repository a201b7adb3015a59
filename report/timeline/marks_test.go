package timeline_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/replay-llm/replay/replay/harness"
	"github.com/replay-llm/replay/report/timeline"
	"github.com/replay-llm/replay/scheduler"
)

// Faults and actions of an autoscaler are on a track of the cluster, within the time range of the cut.
func TestMarks(t *testing.T) {
	r := &harness.Result{Incidents: []harness.Incident{{At: 10, What: "worker 1 dies"}, {At: 100, What: "late"}}}
	s := harness.NewScaling(scheduler.Decode)
	s.Acts = []harness.ScalingAct{{At: 20, From: 2, To: 3, Why: `running is "9"`}}
	s.SetSize(harness.PoolSize{At: 20, Ready: 2, Starting: 1})
	r.Scaling = append(r.Scaling, s)
	var out bytes.Buffer
	w := timeline.New(&out, timeline.Options{To: 50})
	w.AddResult(r)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	var file struct{ TraceEvents []map[string]any }
	if err := json.Unmarshal(out.Bytes(), &file); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	var got []string
	for _, e := range file.TraceEvents {
		if e["ph"] != "M" {
			got = append(got, fmt.Sprint(e["ph"], " ", e["pid"], " ", e["ts"], " ", e["name"], " ", e["args"]))
		}
	}
	want := []string{
		"i 3 10000 fault 1: worker 1 dies <nil>",
		`i 3 20000 2 to 3 decode workers map[why:running is "9"]`,
		"C 3 20000 decode workers map[leaving:0 ready:2 starting:1]",
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
