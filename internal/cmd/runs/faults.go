package runs

import (
	"context"
	"fmt"

	"github.com/replay-llm/replay/internal/terminal"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/report/failures"
)

// mostFaults is the maximum number of faults that are printed below a report.
const mostFaults = 5

// studyFaults finds the cost of each fault, compared with the same replay without faults.
func (r *run) studyFaults(ctx context.Context) error {
	if r.spec.Faults == nil || r.live {
		return nil
	}
	calm := r.spec
	calm.Faults = nil
	result, err := calm.RunOn(ctx, r.workload, replay.Streams{})
	if err != nil {
		return err
	}
	r.faults = failures.Judge(r.result, result, r.goal())
	for _, line := range r.faults.Lines(mostFaults) {
		r.lines = append(r.lines, terminal.WrapLine(line, 4))
	}
	late := 0
	for i := range r.spec.Faults.Events {
		if float64(r.spec.Faults.Events[i].At) > r.result.Report.DurationMS {
			late++
		}
	}
	if late > 0 && r.countLost() == 0 { // otherwise lost requests may be the reason for an early last token
		r.lines = append(r.lines, fmt.Sprintf("Faults: %d of %d come after the last token, and changed nothing", late, len(r.spec.Faults.Events)))
	}
	return nil
}
