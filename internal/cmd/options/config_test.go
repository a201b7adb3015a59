package options

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/replay-llm/replay/internal/cmd/cli"
)

// Any config file is either applied or rejected with a usage error that names the file.
func FuzzConfig(f *testing.F) {
	for _, text := range []string{
		"", "workers: 2\n", "engine-args: {block_size: 16}\nrouter: kv", "workers: [1\n", "- a", "a: &x 1\nb: *x",
		"seed: |\n  5\n", "speedup: 1e3", "enable-prefix-caching: no", "? a\n: b", "workers: !!str 2", "<<: 5", "---\n---\nworkers: 1",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		o := &Options{}
		o.Bind(&cobra.Command{})
		o.Config.path = "c.yaml"
		err := o.Config.applyText(o, o.Config.path, []byte(text), nil)
		if err != nil && (!cli.IsUsage(err) || !strings.HasPrefix(err.Error(), "c.yaml:")) {
			t.Errorf("%q: %v", text, err)
		}
	})
}
