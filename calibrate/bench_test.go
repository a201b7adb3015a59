package calibrate

import (
	"testing"

	"github.com/replay-llm/replay/internal/optional"
	"github.com/replay-llm/replay/scheduler/timing"
)

func BenchmarkRun(b *testing.B) {
	for _, name := range []string{"RTXPRO6000_Llama-3.1-8B", "RTX4090_Llama-3.1-8B"} {
		b.Run("run="+name, func(b *testing.B) {
			m, err := Read(optional.Data(b, "vllm-runs/"+name), 0)
			if err != nil {
				b.Fatal(err)
			}
			s, err := newSimulation(m, nil, false)
			if err != nil {
				b.Fatal(err)
			}
			p := timing.Parameters{Weights: 15e-3, Token: 50e-6, Context: 0.1e-6, Mixed: 0.16e-6, Graphs: m.Settings.Graphs}
			var out Outcome
			for b.Loop() {
				if err := s.Run(&p, &out, nil); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
