package main

import (
	"strings"
	"testing"
)

// The search may replay at most 5 % of the requests of the exhaustive plans over all questions. The number of replays
// does not matter.
func TestCostIsJudged(t *testing.T) {
	for searched, want := range map[int]bool{0: true, 500: true, 501: false, 10000: false} {
		if text, ok := judgeCost(cost{1000, 10000}, cost{200, searched}, true); ok != want || !strings.Contains(text, "200 of 1000 replays") {
			t.Errorf("%d of 10000 requests: %v, want %v: %s", searched, ok, want, text)
		}
		if text, ok := judgeCost(cost{1000, 10000}, cost{200, searched}, false); !ok {
			t.Errorf("%d of 10000 requests of some questions are judged: %s", searched, text)
		}
	}
}

// The cost of a plan includes the cost of its search.
func TestCostHasTheSearch(t *testing.T) {
	a := &answer{Replays: 3, Requests: 300}
	if got := a.cost(); got != (cost{3, 300}) {
		t.Errorf("without a search: %+v", got)
	}
	a.Search = &struct {
		Replays  int
		Requests int `json:"requests_replayed"`
	}{10, 250}
	if got := a.cost(); got != (cost{13, 550}) {
		t.Errorf("with a search: %+v", got)
	}
}

// One of the two questions of continuous integration is also planned for two pools.
func TestPoolsAreAsked(t *testing.T) {
	all, asked := listQuestions(), 0
	for i := range all {
		if all[i].hasPools() {
			if asked++; i%(len(all)/2) != 0 {
				t.Errorf("question %d is not asked with -n 2", i)
			}
		}
	}
	if asked != 1 {
		t.Errorf("%d questions are asked for two pools, must be 1", asked)
	}
}
