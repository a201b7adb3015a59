package options

import (
	"fmt"
	"os"

	"github.com/goccy/go-yaml/ast"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/cmd/internal/cli"
)

// config is a file that holds flags.
type config struct{ path string }

func (c *config) bindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.path, "config", "", "YAML `file` that holds flags by name, without dashes; a flag given here wins")
}

// Apply gives flags that are not on the command line the values of the file.
func (c *config) Apply(o *Options) error {
	if c.path == "" {
		return nil
	}
	text, err := os.ReadFile(c.path)
	if err != nil {
		return fmt.Errorf("--config: %w", err)
	}
	return c.applyText(o, text)
}

func (c *config) applyText(o *Options, text []byte) error {
	entries, err := cli.YamlEntries(c.path, text)
	if err != nil {
		return err
	}
	o.Places = map[string]string{}
	given := map[string]bool{}
	o.Set.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	for _, entry := range entries {
		if err := c.setFlag(o, entry, given); err != nil {
			return err
		}
	}
	return nil
}

func (c *config) setFlag(o *Options, entry *ast.MappingValueNode, given map[string]bool) error {
	key := entry.Key.GetToken()
	place := cli.YamlPlace(c.path, entry.Key)
	flag := o.Set.Lookup(key.Value)
	if flag == nil || flag.Name == "config" || flag.Name == "help" {
		return cli.Usagef("%s: %s: no such flag", place, key.Value)
	}
	if first, ok := o.Places[flag.Name]; ok {
		return cli.Usagef("%s: %s: set before, at %s", place, key.Value, first)
	}
	o.Places[flag.Name] = place
	text, err := cli.YamlText(entry.Value)
	if err != nil {
		return cli.Usagef("%s: %s: %v", place, key.Value, err)
	}
	if given[flag.Name] {
		delete(o.Places, flag.Name)
		return nil
	}
	if err := flag.Value.Set(text); err != nil {
		return cli.Usagef("%s: %s: %s: want %s", place, key.Value, text, cli.WantedKind(flag.Value.Type(), err))
	}
	flag.Changed = true
	return nil
}
