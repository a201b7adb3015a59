package choices

import (
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/router/policy"
)

// most is the maximum number of choices.
const most = 20000

// Choice is a combination of settings that a plan may choose, in addition to the settings of the command line.
type Choice struct {
	Settings []plan.Setting
	Split    bool // prefill and decode have separate pools
	// Name, Kind, Single and Changes have the same meaning as in plan.Variant.
	Name, Kind, Single string
	Changes            int
}

// List returns all choices.
func (s *Space) List(o *options.Options) ([]Choice, error) {
	dimensions, err := s.listDimensions(o)
	if err != nil {
		return nil, err
	}
	splits := s.listSplits(o)
	count := len(splits)
	for _, d := range dimensions {
		if count *= len(d); count > most {
			return nil, cli.Usagef("--vary: more than %d choices: --fix or fewer values make fewer", most)
		}
	}
	var all []Choice
	seen := map[string]bool{}
	for _, split := range splits {
		for _, places := range listPlaces(dimensions) {
			settings, changes := combineSettings(dimensions, places)
			if split && s.varies(o, Budget) && isSmallBudget(settings) || isUneven(settings) && s.isLeftOut(o, settings, split) {
				continue
			}
			if !split {
				settings = dropTwoPools(settings)
			}
			c := Choice{Settings: settings, Split: split, Kind: kindOf(settings, split), Changes: changes}
			c.Name = strings.TrimPrefix(NameOf(settings, split, len(splits) > 1), "aggregated ")
			if split {
				c.Changes += 2
			} else if s.variesListedRouters(o) {
				c.Single = "one worker " + NameOf(dropSettings(settings, "router"), false, false)
			}
			if !seen[c.Name] {
				all = append(all, c)
			}
			seen[c.Name] = true
		}
	}
	return all, nil
}

// listSplits returns the topologies to list: true for separate prefill and decode pools.
func (s *Space) listSplits(o *options.Options) []bool {
	for _, axis := range s.axes {
		if axis.Name != Topology {
			continue
		}
		all := make([]bool, len(axis.Values))
		for i, value := range axis.Values {
			all[i] = value == "disaggregated"
		}
		return all
	}
	if s.varies(o, Topology) || s.Topology == "both" {
		return []bool{false, true}
	}
	return []bool{s.Topology == "disaggregated"}
}

// listPlaces returns all combinations of one index per dimension. The last index changes fastest.
func listPlaces(dimensions []dimension) [][]int {
	all := [][]int{nil}
	for _, d := range dimensions {
		next := make([][]int, 0, len(all)*len(d))
		for _, before := range all {
			for i := range d {
				next = append(next, append(slices.Clone(before), i))
			}
		}
		all = next
	}
	return all
}

// combineSettings returns the settings for one index per dimension, and the number of settings that are not the
// default. Settings of hardware are not counted, because each choice of hardware has a separate kind.
func combineSettings(dimensions []dimension, places []int) (settings []plan.Setting, changes int) {
	for k, d := range dimensions {
		set := d[places[k]]
		settings = append(settings, set...)
		if places[k] > 0 {
			changes += len(slices.DeleteFunc(slices.Clone(set), isHardware))
		}
	}
	return settings, changes
}

func isHardware(s plan.Setting) bool {
	return slices.Contains([]string{"gpu", "tp", "pp", "dp", "ep", prefillTP, decodeTP, "quantization"}, s.Name)
}

// isUneven reports whether prefill and decode workers have different tensor parallelism.
func isUneven(settings []plan.Setting) bool {
	return slices.ContainsFunc(settings, func(s plan.Setting) bool { return s.Name == prefillTP })
}

// isLeftOut reports whether uneven settings are omitted. Uneven settings require two pools. Uneven settings are not
// combined with a token budget if both settings vary by default.
func (s *Space) isLeftOut(o *options.Options, settings []plan.Setting, split bool) bool {
	if !s.varies(o, TP) {
		return false
	}
	return !split || s.varies(o, Budget) && slices.ContainsFunc(settings, func(s plan.Setting) bool { return slices.Contains(FlagsOf(Budget), s.Name) })
}

// dropTwoPools removes settings that apply only to prefill workers or decode workers.
func dropTwoPools(settings []plan.Setting) []plan.Setting {
	names := make([]string, len(settings))
	for i := range settings {
		names[i] = settings[i].Name
	}
	return slices.DeleteFunc(settings, func(s plan.Setting) bool { return options.IsOfTwoPools(s.Name, names) })
}

// kindOf returns the kind of a choice: its settings of hardware, and "disaggregated" for two pools.
func kindOf(settings []plan.Setting, split bool) string {
	var parts []string
	for _, s := range settings {
		if isHardware(s) {
			parts = append(parts, s.Name+"="+s.Value)
		}
	}
	if split {
		parts = append(parts, "disaggregated")
	}
	return strings.Join(parts, " ")
}

// variesListedRouters reports whether routers vary and all of them are in the registry of policies. Routers in the
// registry treat all workers equally.
func (s *Space) variesListedRouters(o *options.Options) bool {
	for _, axis := range s.axes {
		if axis.Name == Router {
			return !slices.ContainsFunc(axis.Values, func(name string) bool { return !isListed(name) })
		}
	}
	return s.varies(o, Router)
}

// isListed reports whether the registry of policies contains a name or an alias.
func isListed(name string) bool {
	return slices.ContainsFunc(policy.All(), func(i policy.Info) bool { return string(i.Name) == name || i.Alias != "" && i.Alias == name })
}

func dropSettings(settings []plan.Setting, name string) []plan.Setting {
	return slices.DeleteFunc(slices.Clone(settings), func(s plan.Setting) bool { return s.Name == name })
}

// NameOf returns the settings that distinguish a choice as text. If both is true, choices have one or two pools, so
// the text includes the topology.
func NameOf(settings []plan.Setting, split, both bool) string {
	var parts []string
	if both && split {
		parts = append(parts, "disaggregated")
	} else if both {
		parts = append(parts, "aggregated")
	}
	for _, s := range settings {
		parts = append(parts, s.Name+"="+s.Value)
	}
	return strings.Join(parts, " ")
}

// isSmallBudget reports whether settings have a token budget below 8192. Small budgets limit the duration of passes
// for decoding requests, so decode-only workers do not benefit from them.
func isSmallBudget(settings []plan.Setting) bool {
	return slices.ContainsFunc(settings, func(s plan.Setting) bool {
		n, err := strconv.Atoi(s.Value)
		return slices.Contains(FlagsOf(Budget), s.Name) && err == nil && n < 8192
	})
}
