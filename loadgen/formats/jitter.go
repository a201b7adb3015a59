package formats

import (
	"errors"
	"io"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// jitter spreads the requests of one whole second evenly over it, in their
// order, for files that tell no less than seconds. It holds the requests of one
// second. Delays after other requests stay as they were recorded.
type jitter struct {
	rows  Reader
	held  Gathered
	ahead *Record // the first of the next second
	end   error   // what came after the last row
}

func (j *jitter) Next(r *Record) error {
	err := j.held.Next(r)
	if err == io.EOF {
		j.holdSecond()
		err = j.held.Next(r)
	}
	if err == io.EOF {
		return j.end
	}
	return err
}

// holdSecond holds the requests of the next second.
func (j *jitter) holdSecond() {
	held := j.held.All[:0]
	if j.ahead != nil {
		held, j.ahead = append(held, *j.ahead), nil
	}
	for j.end == nil && j.ahead == nil {
		var r Record
		var row *loadgen.SyntaxError
		switch err := j.rows.Next(&r); {
		case errors.As(err, &row):
			j.held.Bad = append(j.held.Bad, err)
		case err != nil:
			j.end = err
		default:
			if r = r.Clone(); len(held) > 0 && r.When != held[0].When {
				j.ahead = &r
				break
			}
			held = append(held, r)
		}
	}
	for i := range held {
		held[i].When = held[i].When.Plus(scan.ExactStamp(int64(i) * 1e9 / int64(len(held))))
	}
	j.held.All, j.held.at = held, 0
}
