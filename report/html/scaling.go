package html

import "github.com/replay-llm/replay/report/scaling"

// scaled holds the actions of the autoscalers of a run.
type scaled struct {
	Goal   string       `json:"goal"`
	Missed [5]int       `json:"missed"` // all requests, requests that missed the goal, while growing, after shrinking, else
	Pools  []scaledPool `json:"pools"`
	Acts   []scalingAct `json:"acts"`
}

// scaledPool holds the number of workers of a pool over time.
type scaledPool struct {
	Name     string    `json:"name"`
	At       []float64 `json:"at"` // s
	Ready    []float64 `json:"ready"`
	Starting []float64 `json:"starting"`
	Leaving  []float64 `json:"leaving"`
}

type scalingAct struct {
	Pool     string  `json:"pool"`
	At       float64 `json:"at"` // s
	From     int     `json:"from"`
	To       int     `json:"to"`
	Why      string  `json:"why"`
	Took     float64 `json:"took"` // ms
	Ready    bool    `json:"ready"`
	Requests int     `json:"requests"`
	Missed   int     `json:"missed"`
	TTFT     float64 `json:"ttft"` // ms more
	E2E      float64 `json:"e2e"`
}

// newScaled returns the data of a study for the page; endMS is the end of the run.
func newScaled(s *scaling.Study, endMS float64) *scaled {
	out := &scaled{Goal: s.Goal, Missed: [5]int{s.Requests, s.Missed, s.MissedGrowing, s.MissedShrinking, s.MissedElse}}
	for _, z := range s.Workers {
		if n := len(out.Pools); n == 0 || out.Pools[n-1].Name != z.Pool {
			out.Pools = append(out.Pools, scaledPool{Name: z.Pool})
		}
		out.Pools[len(out.Pools)-1].add(z, z.AtMS)
	}
	for i := range out.Pools {
		p := &out.Pools[i]
		if last := len(p.At) - 1; p.At[last] < endMS/1000 {
			p.add(scaling.Size{Ready: int(p.Ready[last]), Starting: int(p.Starting[last]), Leaving: int(p.Leaving[last])}, endMS)
		}
	}
	for _, a := range s.Acts {
		out.Acts = append(out.Acts, scalingAct{
			Pool: a.Pool, At: a.AtMS / 1000, From: a.From, To: a.To, Why: a.Why, Took: roundDigits(a.UntilMS - a.AtMS), Ready: a.Ready,
			Requests: a.Requests, Missed: a.Missed, TTFT: roundDigits(a.ExtraTTFT), E2E: roundDigits(a.ExtraE2E),
		})
	}
	return out
}

func (p *scaledPool) add(z scaling.Size, ms float64) {
	p.At = append(p.At, roundDigits(ms/1000))
	p.Ready = append(p.Ready, float64(z.Ready))
	p.Starting = append(p.Starting, float64(z.Starting))
	p.Leaving = append(p.Leaving, float64(z.Leaving))
}
