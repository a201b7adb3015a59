// Package releases has the rules of vLLM's schedulers by release, and the limits and checks of vLLM's servers.
//
// Read profiles.go, then release.go, server.go and methods.go.
package releases

import (
	"fmt"
	"slices"

	"github.com/replay-llm/replay/scheduler/vllm"
	"github.com/replay-llm/replay/scheduler/vllm/ranks"
)

// profile describes a range of vLLM releases: their scheduler rules, and the limits of their servers.
type profile struct {
	name  string
	from  [2]int // first release known to follow the rules
	rules vllm.Rules
	large bool // ServerLimits are higher on GPUs with at least 160 GiB
	start Start
	// compared lists the releases with schedulers that behaved like these rules in comparisons.
	compared []string
}

// knownProfiles returns the known profiles, oldest first.
func knownProfiles() []profile {
	oldest, early := Start{Medusa: true, NoSlots: true, TimesYarn: true}, Start{Medusa: true, SeqSlots: true, TimesYarn: true}
	later, scaled := Start{Medusa: true, LongBounded: true, TimesYarn: true}, Start{Medusa: true, LongBounded: true}
	active := scaled
	active.ActiveSeqs = true
	newest := active
	newest.Medusa, newest.Lookahead = false, true
	return []profile{
		{"vllm-0.19", [2]int{0, 19}, Rules019(), false, oldest, []string{"0.19.0", "0.19.1"}},
		{"vllm-0.20", [2]int{0, 20}, Rules020(), false, early, []string{"0.20.2"}},
		{"vllm-0.24", [2]int{0, 24}, Rules024(), false, early, []string{"0.24.0"}},
		{"vllm-0.27", [2]int{0, 27}, Rules027(), false, early, []string{"0.27.1"}},
		{"vllm-0.28", [2]int{0, 28}, Rules028(), true, later, []string{"0.28.0"}},
		{"vllm-0.30", [2]int{0, 30}, Rules030(), true, scaled, []string{"0.30.0"}},
		{"vllm-0.31", [2]int{0, 31}, Rules031(), true, active, []string{"0.31.0"}},
		{"vllm-0.32", [2]int{0, 32}, Rules032(), true, active, []string{"0.32.0"}},
		{"vllm-0.33", [2]int{0, 33}, Rules033(), true, newest, []string{"0.33.0"}},
	}
}

// newestProfile is an alias of the newest known profile.
const newestProfile = "vllm"

// Newest returns the name of the newest known profile.
func Newest() string {
	all := knownProfiles()
	return all[len(all)-1].name
}

// Release returns the first release of vLLM with the rules of a profile, for example 0.33.0. For an unknown name
// Release returns the release of the newest profile.
func Release(name string) string {
	k := findProfile(name)
	if k == nil {
		k = findProfile(Newest())
	}
	return fmt.Sprintf("%d.%d.0", k.from[0], k.from[1])
}

// Rules019 returns the rules of vLLM 0.19 with asynchronous scheduling.
func Rules019() vllm.Rules {
	return vllm.Rules{
		MixedStep: true, BudgetGate: true, RecomputeLast: true, AdmitIdle: true, ReserveWhole: true,
		WholeAllocation: true, OneQueue: true, NullBlock: true, LastVictim: true, TwoInFlight: true,
		FirstTokenFree: true, NameAtEnd: true, EmptyPassMs: 1, DraftBudget: true,
	}
}

// Rules020 returns the rules of vLLM 0.20 with asynchronous scheduling.
func Rules020() vllm.Rules {
	r := Rules019()
	r.WindowBound = true
	return r
}

// Rules024 returns the rules of vLLM 0.24 with asynchronous scheduling.
func Rules024() vllm.Rules {
	r := Rules020()
	r.OneQueue, r.EmptyPassIdle, r.DraftRoom = false, true, true
	return r
}

// Rules027 returns the rules of vLLM 0.27 with asynchronous scheduling.
func Rules027() vllm.Rules {
	r := Rules024()
	r.WindowLag, r.PadDrafts = true, true
	return r
}

// Rules028 returns the rules of vLLM 0.28 with asynchronous scheduling.
func Rules028() vllm.Rules {
	r := Rules027()
	r.DraftSlots, r.DraftBudget, r.KeepNext = true, false, true
	return r
}

// Rules030 returns the rules of vLLM 0.30 with asynchronous scheduling.
func Rules030() vllm.Rules {
	r := Rules028()
	r.PadAlone = true
	return r
}

// Rules031 returns the rules of vLLM 0.31 with asynchronous scheduling.
func Rules031() vllm.Rules {
	r := Rules030()
	r.WholeAlone = true
	return r
}

// Rules032 returns the rules of vLLM 0.32 with asynchronous scheduling.
func Rules032() vllm.Rules { return Rules031() }

// Rules033 returns the rules of vLLM 0.33 with asynchronous scheduling.
func Rules033() vllm.Rules {
	r := Rules032()
	r.PastSelf, r.NameAccepted = true, true
	r.SkipDrafts, r.HashAhead, r.OwnInterval = true, true, true
	return r
}

// Profiles returns the names of the sets of rules that users can select.
func Profiles() []string {
	names := []string{"reference"}
	for _, k := range knownProfiles() {
		names = append(names, k.name)
	}
	return append(names, newestProfile)
}

// RanksHost reports whether the releases of a profile evict from host memory by rank, like vllm.Config.RankedHost. An
// unknown name counts as the newest profile.
func RanksHost(name string) bool {
	k := findProfile(name)
	return k == nil || slices.Compare(k.from[:], []int{0, 33}) >= 0
}

// RanksOf returns the rules of data-parallel ranks in the releases of a profile. An unknown name counts as the newest
// profile.
func RanksOf(name string) ranks.Rules {
	from := []int{0, 33}
	if k := findProfile(name); k != nil {
		from = k.from[:]
	}
	r := ranks.Rules{SyncPasses: 32, InFlight: slices.Compare(from, []int{0, 27}) >= 0}
	if slices.Compare(from, []int{0, 30}) >= 0 {
		r.SyncPasses, r.SyncFirst = 16, true
	}
	return r
}
