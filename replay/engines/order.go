package engines

import (
	"errors"
	"fmt"
	"slices"

	"github.com/replay-llm/replay/router"
)

// checkOrder rejects an order of held requests by values that the workload does not have.
func (s *Stage) checkOrder(order router.QueueOrder) error {
	switch {
	case order != router.WFQ && order != router.EDF:
	case s.Classes == nil:
		return fmt.Errorf("held requests in the order %v: the workload has no classes, requires them in the trace or by --classes", order)
	case order == router.EDF && !slices.ContainsFunc(s.Classes, func(c router.ClassTerms) bool { return c.Deadline > 0 }):
		return errors.New("held requests in the order edf: no class has a deadline, must have one in the file of --classes")
	}
	return nil
}
