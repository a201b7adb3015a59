package runs

import (
	"errors"
	"fmt"
	"io"

	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/replay/harness"
)

// ExplainError adds to the error of a run what can be done about it.
func ExplainError(err error) error {
	if errors.As(err, new(*engines.OversizeError)) {
		return fmt.Errorf("%w; --oversize=reject leaves them out", err)
	}
	return err
}

// mostListed is how many rejected requests are listed.
const mostListed = 10

// listRejected describes which requests were left out, and why.
func listRejected(w io.Writer, all []harness.Rejection) {
	for i, r := range all {
		if i == mostListed {
			fmt.Fprintf(w, "replay: rejected: and %d more\n", len(all)-i)
			return
		}
		fmt.Fprintf(w, "replay: rejected: %s: %v\n", r.Place, r.Err)
	}
}

// countUnfinished counts the requests of a workload of total requests that have not
// got all their tokens and were not rejected either.
func countUnfinished(r *harness.Result, total int) int {
	left := total - len(r.Rejected)
	for _, q := range r.Collector.Requests() {
		if q.OutputTokens > 0 && q.Tokens >= q.OutputTokens {
			left--
		}
	}
	return left
}
