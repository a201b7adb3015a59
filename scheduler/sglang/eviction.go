package sglang

import "github.com/replay-llm/replay/scheduler/sglang/radix"

// Eviction is what is evicted first from the cache; by age in its zero value.
type Eviction = radix.Eviction

// listEvictions returns the names of SGLang's radix_eviction_policy.
func listEvictions() []string { return []string{"lru", "lfu", "slru", "priority", "tlru"} }

// newEviction returns the policy of one of these names, with SGLang's own parameters; lru for
// other names.
func newEviction(name string) Eviction {
	for i, n := range listEvictions() {
		if n == name {
			return Eviction{Policy: radix.Policy(i), ProtectedHits: 2}
		}
	}
	return Eviction{ProtectedHits: 2}
}
