package requests_test

import (
	"bytes"
	"context"
	"reflect"
	"testing"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/report/relay"
	"github.com/replay-llm/replay/report/requests"
)

// A replay with folded requests gives the same report and the same files of rows as a replay that keeps all requests.
// Observers may run immediately or later.
func TestStreamedRowsAreCollected(t *testing.T) {
	for name, spec := range specs() {
		kept, rows := recorded(t, spec)
		for _, format := range []requests.Format{requests.Parquet, requests.JSONL, requests.CSV} {
			var want, got bytes.Buffer
			if err := requests.Write(&want, format, rows); err != nil {
				t.Fatal(err)
			}
			to := requests.NewWriter(&got, format)
			seen := new(requests.Recorder)
			stream := &requests.Stream{Seen: seen, Show: []func(*requests.Row) error{to.Add}}
			later := relay.NewFolding(seen, stream)
			result, err := spec.Run(context.Background(), replay.Streams{
				Observer: later, Fold: &collector.Folding{Quantiles: collector.Exact, Dir: t.TempDir(), Sink: later},
			})
			if err != nil {
				t.Fatal(err)
			}
			later.Close()
			if err := to.Close(); err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(got.Bytes(), want.Bytes()) {
				t.Errorf("%s: %v: %d bytes, want the same %d", name, format, got.Len(), want.Len())
			}
			kept.Report.SetWall(1)
			result.Report.SetWall(1)
			if !reflect.DeepEqual(result.Report, kept.Report) {
				t.Errorf("%s: got\n%+v, want\n%+v", name, result.Report, kept.Report)
			}
			if err := result.Collector.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}
