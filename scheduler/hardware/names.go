package hardware

import (
	"os"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/nearest"
)

// plainName returns a name without the prefixes and suffixes of vendors, for comparisons.
func plainName(name string) string {
	name = strings.ToLower(name[strings.LastIndex(name, "/")+1:])
	for _, noise := range []string{"nvidia", "geforce", "instinct", "amd", "meta-", "-instruct", "-base", "tensor core gpu", "80gb", "hbm3", "sxm4", "sxm5", "sxm", "blackwell", "workstation edition", "server edition", " ", "-", "_"} {
		name = strings.ReplaceAll(name, noise, "")
	}
	return name
}

// FindGPU returns the GPU of a name, as in the tables or from the driver. GPUs in own, which the user defines, take
// precedence.
func FindGPU(name string, own []GPU) (GPU, error) {
	all := append(slices.Clone(own), GPUs()...)
	i := slices.IndexFunc(all, func(g GPU) bool { return plainName(g.Name) == plainName(name) })
	if i >= 0 {
		return all[i], nil
	}
	names := make([]string, len(all))
	for i, g := range all {
		names[i] = g.Name
	}
	return GPU{}, unknownName("GPU", name, names, "`replay gpus` lists them")
}

// FindModel returns the model of a name, with or without its vendor, or of the path of a configuration.
func FindModel(name string) (Model, error) {
	all := Models()
	i := slices.IndexFunc(all, func(m Model) bool { return plainName(m.Name) == plainName(name) })
	if i >= 0 {
		return all[i], nil
	}
	if _, err := os.Stat(name); err == nil {
		return readModel(name)
	}
	if reason := refuseName(name); reason != "" {
		return Model{}, excerpt.Errorf("model is %q: %s", name, reason)
	}
	names := make([]string, len(all))
	for i, m := range all {
		names[i] = m.Name
	}
	return Model{}, unknownName("model", name, names, "`replay models` lists them; or give the path of a config.json")
}

// unknownName returns the error for an unknown name.
func unknownName(kind, name string, names []string, hint string) error {
	ask := nearest.Ask(name, names)
	if ask == "" {
		ask = ":"
	}
	return excerpt.Errorf("%s is %q, which is unknown%s %s", kind, name, ask, hint)
}
