// This program is an autoscaler in a separate process. The autoscaler decides like the HorizontalPodAutoscaler of
// Kubernetes: the target is 8 requests in flight per worker. The autoscaler scales down to the maximum recommendation
// of the last minute.
//
//	go build -o bin/scaler ./examples/scaler-process/go
//	replay trace TRACE --autoscale examples/scaler-process/go/process.yaml
package main

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"os"
)

const (
	target    = 8      // target requests in flight per worker
	tolerance = 0.1    // distance from the target ratio 1 within which nothing changes
	window    = 60_000 // ms, in which the highest recommendation counts when the number falls
)

// tick holds the fields of an input line that this autoscaler reads. Scraped values are null until the first scrape.
type tick struct {
	Now      float64 `json:"now"` // ms
	Workers  int     `json:"workers"`
	Least    int     `json:"least"`
	Most     int     `json:"most"`
	Ready    int     `json:"ready"`
	Missing  int     `json:"missing"`
	InFlight *int    `json:"in_flight_total"`
}

// answer holds the requested number of workers, and the reason.
type answer struct {
	Workers int    `json:"workers"`
	Why     string `json:"why"`
}

func main() {
	if err := answerLines(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "scaler:", err) // replay's standard error
		os.Exit(1)
	}
}

// answerLines answers the input line by line, until the replay ends.
func answerLines(in io.Reader, out io.Writer) error {
	lines, answers := json.NewDecoder(in), json.NewEncoder(out) // the encoder ends each answer with a line feed
	var greeting struct {
		Protocol string `json:"protocol"`
		Version  int    `json:"version"`
	}
	if err := lines.Decode(&greeting); err != nil {
		return err
	}
	if greeting.Protocol != "replay-scaler" || greeting.Version != 1 {
		return fmt.Errorf("protocol %s %d, expected replay-scaler 1", greeting.Protocol, greeting.Version)
	}
	if _, err := fmt.Fprintln(out, `{"version": 1}`); err != nil {
		return err
	}
	var s scaler
	for {
		var t tick
		if err := lines.Decode(&t); err == io.EOF {
			return nil
		} else if err != nil {
			return err
		}
		if err := answers.Encode(s.decide(&t)); err != nil {
			return err
		}
	}
}

// scaler holds the recommendation of each tick of the window.
type scaler struct{ wanted []step }

type step struct {
	at float64
	n  int
}

// decide returns the requested number of workers.
func (s *scaler) decide(t *tick) answer {
	n, why := t.Workers, "nothing has been read"
	if t.InFlight != nil && t.Ready > 0 {
		n = t.recommend()
		why = fmt.Sprintf("%.4g in flight on a worker: %d", float64(*t.InFlight)/float64(t.Ready), n)
	}
	if s.wanted == nil {
		s.wanted = []step{{t.Now, t.Workers}}
	}
	most, kept := n, s.wanted[:0]
	for _, w := range s.wanted {
		if t.Now-w.at < window {
			most, kept = max(most, w.n), append(kept, w)
		}
	}
	s.wanted = append(kept, step{t.Now, n})
	if n < t.Workers {
		n = min(most, t.Workers)
	}
	n = min(n, max(t.Workers+4, 2*t.Workers)) // maximum increase per tick
	return answer{min(max(n, t.Least), t.Most), why}
}

// recommend returns the number of workers that brings the requests in flight per worker to target. Workers without a
// value count as on target for a decrease, and as idle for an increase. Workers that do not run yet count as idle for
// an increase. Means are in whole thousandths, rounded down.
func (t *tick) recommend() int {
	sum, n := *t.InFlight, t.Ready
	ratio := func() float64 { return float64(1000*sum/n) / (1000 * target) }
	first := ratio()
	missing := min(t.Missing, t.Workers-t.Ready)
	unready := 0
	if first > 1 {
		unready = max(t.Workers-t.Ready-missing, 0)
	}
	switch {
	case first < 1:
		sum, n = sum+missing*target, n+missing
	case first > 1:
		n += missing + unready
	}
	second := ratio()
	if 1-tolerance <= second && second <= 1+tolerance || first < 1 && second > 1 || first > 1 && second < 1 {
		return t.Workers
	}
	to := int(math.Ceil(second * float64(n)))
	if n > t.Ready && (second < 1 && to > t.Workers || second > 1 && to < t.Workers) {
		return t.Workers
	}
	return to
}
