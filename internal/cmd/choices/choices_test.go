package choices

import (
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/options"
)

// list returns the choices for a command line.
func list(t *testing.T, s *Space, flags ...string) ([]Choice, error) {
	t.Helper()
	o := options.NewCellOptions()
	for _, text := range append([]string{"gpu=h100", "model=llama-3.1-8b"}, flags...) {
		name, value, _ := strings.Cut(text, "=")
		if err := o.Set.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Check(o); err != nil {
		return nil, err
	}
	return s.List(o)
}

// Values in --vary are values of a flag. Each combination is a choice with a unique name.
func TestVaryTakesValues(t *testing.T) {
	s := &Space{Topology: "aggregated", Vary: []string{"router,topology", "tp=1,2,4,8", "max-num-batched-tokens=512,1024,2048,4096,8192", "max-num-seqs=64,128,256"}}
	all, err := list(t, s)
	if err != nil || len(all) != 2*4*5*3*2 {
		t.Fatalf("%d choices, %v, want 240", len(all), err)
	}
	names := map[string]bool{}
	for i := range all {
		names[all[i].Name] = true
	}
	if len(names) != len(all) || !names["disaggregated router=kv tp=8 max-num-batched-tokens=512 max-num-seqs=64"] {
		t.Errorf("%d names of %d choices", len(names), len(all))
	}
	if first := all[0]; first.Changes != 0 || first.Kind != "tp=1" {
		t.Errorf("the first choice: %+v", first)
	}
}

// Clusters with one worker are equal if they differ only in the router.
func TestSingleWorkersAreAlike(t *testing.T) {
	all, err := list(t, &Space{Vary: []string{"router=round_robin,kv,least-loaded", "tp=1,2"}})
	if err != nil {
		t.Fatal(err)
	}
	single := map[string]int{}
	for i := range all {
		single[all[i].Single]++
	}
	if len(all) != 6 || len(single) != 2 || single[""] > 0 {
		t.Errorf("%d choices with single workers %v, want 2 of 3 each", len(all), single)
	}
	all, err = list(t, &Space{Vary: []string{"tp"}})
	if err != nil || len(all) == 0 || all[0].Single != "" {
		t.Errorf("without routers: %+v, %v", all, err)
	}
}

func TestVaryRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"tpp":                                 "did you mean tp?",
		"workers=1,2":                         "the plan finds the number of workers",
		"nothing=1":                           "nothing",
		"topology=both":                       "must be aggregated or disaggregated",
		"seed=" + strings.Repeat("1,", 20000): "more than 20000 choices",
	} {
		if _, err := list(t, &Space{Vary: []string{text}}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("--vary %.20s: %v, want %q", text, err, want)
		}
	}
	if _, err := list(t, &Space{Vary: []string{"tp=1,2"}}, "tp=4"); err == nil || !strings.Contains(err.Error(), "remove one of them") {
		t.Errorf("given and varied: %v", err)
	}
}

// The tensor parallelism of prefill and decode workers may differ by a factor of two. Choices with different tensor
// parallelism have the default token budget.
func TestPoolsDivideTheModel(t *testing.T) {
	all, err := list(t, &Space{Topology: "aggregated"})
	if err != nil {
		t.Fatal(err)
	}
	kinds := map[string]int{}
	for i := range all {
		if c := &all[i]; isUneven(c.Settings) {
			if kinds[c.Kind]++; !c.Split {
				t.Errorf("%s has one pool", c.Name)
			}
		}
	}
	if len(kinds) != 6 || kinds["prefill-tp=4 decode-tp=2 disaggregated"] != 2 {
		t.Errorf("%d kinds, want 6 of 2 routers each: %v", len(kinds), kinds)
	}
	all, err = list(t, &Space{Vary: []string{"topology", "prefill-tp=2,4", "decode-tp=1,8"}})
	if err != nil || len(all) != 1+4 || all[1].Name != "disaggregated prefill-tp=2 decode-tp=1" {
		t.Errorf("values of --vary: %v, %+v", err, all)
	}
	if _, err := list(t, &Space{Vary: []string{"tp"}}, "prefill-tp=2"); err == nil || !strings.Contains(err.Error(), "--prefill-tp gives it") {
		t.Errorf("given and varied: %v", err)
	}
}
