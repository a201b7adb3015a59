package ledger

import (
	"errors"
	"io"
	"os"

	"github.com/replay-llm/replay/report/parquet"

	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/sim"
)

// WorkFile is the name of a log in a run directory.
const WorkFile = "work.parquet"

// Work is one request's share in the prefill part of one pass.
type Work struct {
	Decode  bool // on a worker of the decode stage
	Worker  int32
	Request int32
	Start   float64 // of the pass
	End     float64 // of its prefill part
	Tokens  int32   // computed for the request
	All     int32
}

// Log notes who computed prompts when, pass by pass. The passes of a worker are
// in the order of time.
type Log struct{ Work []Work }

// addPrefill shares the prefill part of a pass, which takes ms, among those whose
// tokens it computed.
func (l *Log) addPrefill(stage scheduler.Role, w sim.WorkerID, start, ms sim.Time, work []scheduler.Work) {
	all := 0
	for i := range work {
		all += work[i].Prompt + work[i].Recomputed
	}
	for i := range work {
		if n := work[i].Prompt + work[i].Recomputed; n > 0 {
			l.Work = append(l.Work, Work{
				Decode: stage == scheduler.Decode, Worker: int32(w), Request: int32(work[i].Request),
				Start: float64(start), End: float64(start + ms), Tokens: int32(n), All: int32(all),
			})
		}
	}
}

// workFields returns the columns of the file.
func workFields() []parquet.Field[Work] {
	return []parquet.Field[Work]{
		parquet.BoolField("decode_stage", func(w *Work) *bool { return &w.Decode }),
		parquet.Int32Field("worker", func(w *Work) *int32 { return &w.Worker }),
		parquet.Int32Field("request", func(w *Work) *int32 { return &w.Request }),
		parquet.DoubleField("start_ms", func(w *Work) *float64 { return &w.Start }),
		parquet.DoubleField("end_ms", func(w *Work) *float64 { return &w.End }),
		parquet.Int32Field("tokens", func(w *Work) *int32 { return &w.Tokens }),
		parquet.Int32Field("all_tokens", func(w *Work) *int32 { return &w.All }),
	}
}

// Write writes the log as a Parquet file.
func (l *Log) Write(w io.Writer) error { return parquet.WriteRows(w, "Work", workFields(), l.Work) }

// ReadLog reads what Write wrote.
func ReadLog(path string) (*Log, error) {
	work, err := parquet.ReadRows(path, workFields())
	if errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, errors.Join(errors.New(path), err)
	}
	return &Log{Work: work}, nil
}
