package autoscale

import "testing"

// TestFactsHaveMeanings checks that every fact has a description, which replay policies prints.
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
