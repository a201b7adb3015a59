package autoscale

import "testing"

// Every fact that rules may read has a meaning, which replay policies prints.
func TestFactsHaveMeanings(t *testing.T) {
	facts := Facts()
	if len(facts) != len(ruleFacts()) || len(facts) == 0 {
		t.Fatalf("%d facts", len(facts))
	}
	for _, f := range facts {
		if f.Name == "" || f.Help == "" {
			t.Errorf("%q: no meaning", f.Name)
		}
	}
}
