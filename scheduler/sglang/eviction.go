package sglang

import "github.com/replay-llm/replay/scheduler/sglang/radix"

// Eviction is the eviction policy of the cache. The zero value evicts by age.
type Eviction = radix.Eviction

// listEvictions returns the allowed values of SGLang's radix_eviction_policy.
func listEvictions() []string { return []string{"lru", "lfu", "slru", "priority", "tlru"} }

// newEviction returns the policy for such a value, with the default parameters of SGLang. Other names give lru.
func newEviction(name string) Eviction {
	for i, n := range listEvictions() {
		if n == name {
			return Eviction{Policy: radix.Policy(i), ProtectedHits: 2}
		}
	}
	return Eviction{ProtectedHits: 2}
}
