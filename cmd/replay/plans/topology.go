package plans

import (
	"slices"

	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/plan"
)

// splitSettings returns the settings without those of prefill and decode workers only, unless the cluster has such
// workers.
func splitSettings(all []plan.Setting, split bool) []plan.Setting {
	if split {
		return all
	}
	names := make([]string, len(all))
	for i := range all {
		names[i] = all[i].Name
	}
	return slices.DeleteFunc(slices.Clone(all), func(s plan.Setting) bool { return options.IsOfTwoPools(s.Name, names) })
}

// hasVariant reports whether a variant with this name exists. For workers of one pool, several values of settings
// that only two pools use give one variant.
func hasVariant(all []chosen, name string) bool {
	return slices.ContainsFunc(all, func(c chosen) bool { return c.variant.Name == name })
}

// firstOfTwoPools returns the first given flag of prefill or decode workers only, "" without one.
func firstOfTwoPools(o *options.Options) string {
	var names []string
	for _, s := range o.Settings() {
		names = append(names, s.Name)
	}
	if i := slices.IndexFunc(names, func(name string) bool { return options.IsOfTwoPools(name, names) }); i >= 0 {
		return names[i]
	}
	return ""
}
