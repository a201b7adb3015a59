package hardware

import (
	"math"
	"testing"
)

// fitOn returns a dense model on GPUs.
func fitOn(t *testing.T, name string, tp, pp int) *Fit {
	t.Helper()
	gpu, err := FindGPU(name, nil)
	if err != nil {
		t.Fatal(err)
	}
	model, err := FindModel("llama-3.1-405b")
	if err != nil {
		t.Fatal(err)
	}
	return &Fit{GPU: gpu, Model: model, TP: tp, PP: pp, DP: 1, EP: 1, BlockTokens: 16, MaxSeqs: 256, MaxBatch: 8192, Utilization: 0.9}
}

// Collectives of more GPUs than a node has use the bandwidth between nodes. Collectives of 16 H100 take nine times as
// long as within one node; collectives of 16 GB200 take the same time.
func TestCollectivesAcrossNodes(t *testing.T) {
	const host = hostTime
	for _, c := range []struct {
		gpu    string
		tp     int
		factor float64
		nodes  int
	}{{"h100", 8, 1, 1}, {"h100", 16, 9, 2}, {"h100", 32, 9, 4}, {"b200", 16, 18, 2}, {"gb200", 16, 1, 1}, {"l40s", 16, 2.56, 2}} {
		f := fitOn(t, c.gpu, c.tp, 1)
		one := *f
		one.GPU.PerNode = 1024
		got, want := f.Pass(), one.Pass()
		if f.Nodes() != c.nodes || !near(got.Network, c.factor*want.Network) || !near(got.Base-host, c.factor*(want.Base-host)) {
			t.Errorf("%d %s: %d nodes, network %g and base %g, want %d nodes and %g times %g and %g", c.tp, c.gpu, f.Nodes(), got.Network, got.Base-host, c.nodes, c.factor, want.Network, want.Base-host)
		}
	}
}

// With two stages of eight H100, only the hop between the stages crosses nodes.
func TestHopsAcrossNodes(t *testing.T) {
	f := fitOn(t, "h100", 8, 2)
	one := *f
	one.GPU.PerNode = 1024
	hop := 2 * float64(f.Model.Hidden) / 2
	if got, want := f.Pass().Network-one.Pass().Network, hop/(linkShare*50e9)-hop/(linkShare*450e9); !near(got, want) {
		t.Errorf("the hop takes %g s a token longer, want %g", got, want)
	}
	if got, want := f.Pass().Base-one.Pass().Base, 8*linkTime; !near(got, want) {
		t.Errorf("a pass takes %g s longer, want %g", got, want)
	}
}

func near(got, want float64) bool { return math.Abs(got-want) <= 1e-9*math.Abs(want) }
