package options

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/yamlfile"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/replay/deployment"
)

// config has the files with flags: a config file with any flags, and deployment files.
type config struct {
	path        string
	deployments fileNames
	// Overruled has notes about deployment settings that the command line overrides.
	Overruled []string
}

func (c *config) bindDeployment(fs *pflag.FlagSet) {
	fs.Var(&c.deployments, "deployment", "YAML `file` of replay init, which flags override; repeatable for a mix of workers")
}

func (c *config) bindFlags(fs *pflag.FlagSet) {
	fs.StringVar(&c.path, "config", "", "YAML `file` of flags by name, without dashes; the command line overrides it")
}

// Apply sets flags from the config file and the deployment file. The command line has precedence, then the config
// file. Deployments of a mix are not applied here, because each one applies to its own workers.
func (c *config) Apply(o *Options) error {
	if err := c.applyFile(o, "config", c.path, nil); err != nil || o.keepsDeployments() {
		return err
	}
	for _, path := range c.deployments {
		if err := c.applyFile(o, "deployment", path, deployment.Flags()); err != nil {
			return err
		}
	}
	return nil
}

// keepsDeployments reports whether the deployments describe the workers of a mix.
func (o *Options) keepsDeployments() bool {
	return o.Cluster.isMixed() || len(o.Config.deployments) > 1
}

// applyFile sets flags from a file if the command line does not set them. allowed lists the permitted flags, and nil
// permits all flags.
func (c *config) applyFile(o *Options, flag, path string, allowed []string) error {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return fmt.Errorf("--%s: %w", flag, err)
	}
	return c.applyText(o, path, text, allowed)
}

// applyText sets flags from the text of a file if the command line does not set them.
func (c *config) applyText(o *Options, path string, text []byte, allowed []string) error {
	entries, err := yamlfile.ListEntries(path, text)
	if err != nil {
		return err
	}
	places, given := map[string]string{}, map[string]bool{}
	o.Set.Visit(func(f *pflag.Flag) { given[f.Name] = true })
	for _, entry := range entries {
		key, place := entry.Key.GetToken().Value, yamlfile.PlaceOf(path, entry.Key)
		if allowed != nil && !slices.Contains(allowed, key) {
			return cli.Usagef("%s: %s: no setting of a deployment, must be a setting that replay init writes%s", place, key, nearest.Ask(key, allowed))
		}
		if err := c.setFlag(o, entry, place, places, given); err != nil {
			return err
		}
	}
	if o.Places == nil {
		o.Places = map[string]string{}
	}
	for flag, place := range places {
		if !given[flag] {
			o.Places[flag] = place
		}
	}
	return nil
}

// setFlag sets a flag from an entry of a file, unless the flag is in given.
func (c *config) setFlag(o *Options, entry *ast.MappingValueNode, place string, places map[string]string, given map[string]bool) error {
	key := entry.Key.GetToken()
	flag := o.Set.Lookup(key.Value)
	if flag == nil || flag.Name == "config" || flag.Name == "deployment" || strings.HasPrefix(flag.Name, "help") {
		return cli.Usagef("%s: %s: no such flag%s", place, key.Value, nearest.Ask(key.Value, cli.FlagNames(o.Set)))
	}
	if first, ok := places[flag.Name]; ok {
		return cli.Usagef("%s: %s: set before, at %s", place, key.Value, first)
	}
	places[flag.Name] = place
	text, err := yamlfile.TextOf(entry.Value)
	if err != nil {
		return cli.Usagef("%s: %s: %v", place, key.Value, err)
	}
	if given[flag.Name] {
		if has := flag.Value.String(); len(c.deployments) > 0 && has != text {
			c.Overruled = append(c.Overruled, fmt.Sprintf("--%s is %s, and %s at %s: the flag wins", flag.Name, has, text, place))
		}
		return nil
	}
	if err := o.Set.Set(flag.Name, text); err != nil {
		var invalid *pflag.InvalidValueError
		if errors.As(err, &invalid) {
			err = invalid.Unwrap()
		}
		return cli.Usagef("%s: %s: %s: must be %s", place, key.Value, text, cli.WantedKind(flag.Value.Type(), err))
	}
	return nil
}
