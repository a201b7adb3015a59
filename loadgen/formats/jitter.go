package formats

import (
	"errors"

	"github.com/replay-llm/replay/loadgen"
)

// jitter spreads the requests of one whole second evenly over it, in their
// order, for files that tell no less than seconds. It holds the requests of one
// second. Delays after other requests stay as they were recorded.
type jitter struct {
	rows
	held  []Record
	at    int     // of held: the next to be given
	bad   []error // rows among the held ones
	ahead *Record // the first of the next second
	end   error   // what came after the last row
}

func (j *jitter) next(r *Record) error {
	if j.at == len(j.held) && len(j.bad) == 0 {
		j.holdSecond()
	}
	switch {
	case len(j.bad) > 0:
		err := j.bad[0]
		j.bad = j.bad[1:]
		return err
	case len(j.held) == 0:
		return j.end
	}
	from := &j.held[j.at]
	ids := append(r.IDs[:0], from.IDs...)
	*r = *from
	r.IDs = ids
	j.at++
	return nil
}

// holdSecond holds the requests of the next second.
func (j *jitter) holdSecond() {
	j.held, j.at = j.held[:0], 0
	if j.ahead != nil {
		j.held, j.ahead = append(j.held, *j.ahead), nil
	}
	for j.end == nil && j.ahead == nil {
		var r Record
		var row *loadgen.SyntaxError
		switch err := j.rows.next(&r); {
		case errors.As(err, &row):
			j.bad = append(j.bad, err)
		case err != nil:
			j.end = err
		default:
			if r = r.Clone(); len(j.held) > 0 && r.when != j.held[0].when {
				j.ahead = &r
				break
			}
			j.held = append(j.held, r)
		}
	}
	for i := range j.held {
		j.held[i].when = j.held[i].when.plus(exactStamp(int64(i) * 1e9 / int64(len(j.held))))
	}
}
