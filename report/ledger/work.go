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

// Work is the share of one request in the prefill part of one pass.
type Work struct {
	Decode  bool    `parquet:"decode_stage"` // on a worker of the decode stage
	Worker  int32   `parquet:"worker"`
	Request int32   `parquet:"request"`
	Start   float64 `parquet:"start_ms"` // of the pass
	End     float64 `parquet:"end_ms"`   // end of the prefill part
	Tokens  int32   `parquet:"tokens"`   // computed tokens of the request
	All     int32   `parquet:"all_tokens"`
}

// Log records the requests of which each pass computed prompt tokens. The passes of a worker are in order of time.
type Log struct{ Work []Work }

// addPrefill divides the prefill part of a pass, ms long, among the requests with prompt tokens in it.
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

// Write writes the log as a Parquet file.
func (l *Log) Write(w io.Writer) error { return parquet.WriteRows(w, l.Work) }

// ReadLog reads the output of Write.
func ReadLog(path string) (*Log, error) {
	work, err := parquet.ReadRows[Work](path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, err
	}
	if err != nil {
		return nil, errors.Join(errors.New(path), err)
	}
	return &Log{Work: work}, nil
}
