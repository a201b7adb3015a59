// Package dice is what the tools that draw random replays have in common: draws
// from a seed, the tags a drawn case is chosen by, and the arguments that engines
// and routers take.
package dice

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
)

// Pick returns one of the choices.
func Pick[T any](rng *rand.Rand, choices ...T) T { return choices[rng.IntN(len(choices))] }

// Chance reports true once in n times.
func Chance(rng *rand.Rand, n int) bool { return rng.IntN(n) == 0 }

// Tags are the words that a drawn case is chosen by.
type Tags []string

// Add adds a tag that is not there yet.
func (t *Tags) Add(tag string) {
	if !t.Has(tag) {
		*t = append(*t, tag)
	}
}

// Has reports whether the case has the tag.
func (t *Tags) Has(tag string) bool { return slices.Contains(*t, tag) }

// Match reports whether the case has all tags of only, by comma, and none of
// skip.
func (t *Tags) Match(only, skip string) bool {
	for tag := range strings.SplitSeq(only, ",") {
		if tag != "" && !t.Has(tag) {
			return false
		}
	}
	for tag := range strings.SplitSeq(skip, ",") {
		if tag != "" && t.Has(tag) {
			return false
		}
	}
	return true
}

func (t *Tags) String() string { return strings.Join(*t, " ") }

// Object returns a JSON object with sorted keys.
func Object(members map[string]any) string {
	text, err := json.Marshal(members)
	if err != nil {
		panic(fmt.Sprintf("arguments %v: %v", members, err))
	}
	return string(text)
}
