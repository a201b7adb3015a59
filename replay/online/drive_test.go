package online

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/sim"
)

// told is a target that reports tokens at fixed instants: the first token 100 ms after the request was sent, and each
// later token after another 10 ms.
type told struct {
	rec  *Recorder
	fail sim.RequestID // the request that fails after its first token
}

func (x told) Serve(ctx context.Context, q *sim.Request, placed func()) error {
	placed()
	at := sim.Time(1000 * q.ID)
	x.rec.Admitted(at+50, q.ID, 64)
	for i := range q.OutputTokens {
		x.rec.Token(at+100+sim.Time(10*i), q.ID, i+1 == q.OutputTokens)
		if q.ID == x.fail {
			return errors.New("gone")
		}
	}
	return nil
}

// TestDrive checks that the report has the instants that a target reports. Requests that fail are listed and do not
// delay other requests.
func TestDrive(t *testing.T) {
	turn := `{"session_id":"%s","timestamp":0,"input_length":128,"output_length":5,"hash_ids":[1,2]}` + "\n"
	c := config(t, 1, fmt.Sprintf(turn+turn+turn+turn, "a", "b", "a", "b"))
	c.closed(1)
	watch := &watcher{}
	c.Observer = watch
	within(t, func() {
		r, err := Drive(context.Background(), c, func(rec *Recorder, _ *Clock) (Target, error) { return told{rec, 1}, nil })
		if err != nil {
			t.Error(err)
			return
		}
		for id, q := range r.Collector.Requests() {
			at := sim.Time(1000 * id)
			tokens := 5
			if id == 1 {
				tokens = 1
			}
			if id == 1 && q.Admitted() || id != 1 && q.Admit != at+50 || q.First != at+100 || int(q.Tokens) != tokens || q.Reused != 64 || tokens > 1 && (q.Second != at+110 || q.Last != at+140) {
				t.Errorf("request %d: %+v", id, *q)
			}
		}
		itl := r.Report.ITL
		if r.Report.Requests != 3 || r.Report.Completed != 2 || math.Abs(itl.Min-10) > 1e-9 || math.Abs(itl.Max-10) > 1e-9 {
			t.Errorf("%d requests, time between tokens %v to %v, want 3 and 10", r.Report.Requests, itl.Min, itl.Max)
		}
		if len(r.Failed) != 1 || r.Failed[0].Request != 1 || r.Cancelled != 0 || r.Partial || watch.arrived != 3 {
			t.Errorf("failed %+v, %d cancelled, %d arrived", r.Failed, r.Cancelled, watch.arrived)
		}
		var b strings.Builder
		if err := r.Report.WriteJSON(&b); err != nil || !strings.Contains(b.String(), `"errors": {"trace.jsonl:2": "gone"}`) {
			t.Errorf("error %v, report\n%s", err, &b)
		} else if _, err := collector.ReadJSON(strings.NewReader(b.String())); err != nil {
			t.Error(err)
		}
	})
}

// TestDriveEnds checks that a target that cannot be made is an error, and that a target that ignores its requests
// ends with the run.
func TestDriveEnds(t *testing.T) {
	c := config(t, 1, line(0, 64, 1, "1"))
	why := errors.New("no such endpoint")
	if _, err := Drive(context.Background(), c, func(*Recorder, *Clock) (Target, error) { return nil, why }); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancelCause(context.Background())
	within(t, func() {
		r, err := Drive(ctx, c, func(*Recorder, *Clock) (Target, error) {
			return ignore(func() { cancel(why) }), nil
		})
		if err != nil || r.Cause != why || r.Cancelled != 1 {
			t.Errorf("result %+v, error %v", r, err)
		}
	})
}

// ignore is a target that calls a function once and waits for the end.
type ignore func()

func (do ignore) Serve(ctx context.Context, _ *sim.Request, placed func()) error {
	placed()
	do()
	<-ctx.Done()
	return ctx.Err()
}
