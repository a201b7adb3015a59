package plans

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/choices"
	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/cmd/starts"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/deployment/launch"
)

// emission holds the flags for the start commands and manifests of the recommended cluster, and their directory.
type emission struct {
	targets []string
	dir     string
}

func (e *emission) bind(fs *pflag.FlagSet) {
	fs.StringSliceVar(&e.targets, "emit", nil, "also write the files that start the recommended cluster, for comma-separated `targets`:\n"+strings.Join(launch.Targets(), ", "))
	fs.StringVar(&e.dir, "emit-dir", "", "`directory` for the files of --emit (default: standard output)")
}

// check rejects targets that the plan does not support.
func (e *emission) check(o *options.Options) error {
	for _, target := range e.targets {
		if !slices.Contains(launch.Targets(), target) {
			return cli.Usagef("--emit=%s: must be some of %s%s", target, strings.Join(launch.Targets(), ", "), nearest.Ask(target, launch.Targets()))
		}
		engine := choices.EngineOf(o)
		if engine == "" {
			engine = "vllm"
		}
		if slices.Contains([]string{"vllm", "sglang", "trtllm"}, target) && target != engine {
			return cli.Usagef("--emit=%s: the plan is one of %s: --engine %s plans for it", target, engine, target)
		}
	}
	return o.Check(
		cli.Needs(len(e.targets) > 0, "with --emit", "emit-dir"),
		cli.Needs(len(e.targets) == 0 || o.Changed("gpu") && o.Changed("model"), "with --gpu and --model, which a start command names", "emit"),
		cli.Needs(len(e.targets) == 0 || !o.Changed("compat"), "without --compat", "emit"),
	)
}

// emit returns the start commands of the recommended cluster, none if no cluster is recommended.
func (p *planSheet) emit() ([]*launch.Output, error) {
	e := &p.flags.emission
	if len(e.targets) == 0 || p.plan.Best < 0 {
		return nil, nil
	}
	best := &p.plan.Answers[p.plan.Best]
	shape := best.Shape
	if c := best.Confident; c != nil {
		if !c.Found {
			return nil, nil
		}
		shape = c.Shape
	}
	c := &p.runner.choices[best.Variant]
	if c.isMixed() {
		return nil, cli.Usagef("--emit: not with workers of several kinds")
	}
	topology := c.clusterOf(shape)
	cluster, err := starts.ClusterOf(c.settings, &topology)
	if err != nil {
		return nil, err
	}
	var all []*launch.Output
	for _, target := range e.targets {
		output, err := launch.Write(target, cluster)
		if err != nil {
			return nil, fmt.Errorf("--emit=%w", err)
		}
		all = append(all, output)
	}
	return all, nil
}

// writeEmitted writes the start commands of the recommended cluster to the given directory, and warns of settings
// that they lack.
func (p *planSheet) writeEmitted(s cli.Streams) error {
	for _, output := range p.emitted {
		for _, text := range output.Missing {
			s.Warn(output.Target + " does not express " + text)
		}
	}
	dir := p.flags.emission.dir
	if dir == "" || len(p.emitted) == 0 {
		return nil
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return fmt.Errorf("--emit-dir: %w", err)
	}
	for _, output := range p.emitted {
		for _, file := range output.Files {
			err := collector.WriteFile(filepath.Join(dir, file.Name), func(w io.Writer) error {
				_, err := io.WriteString(w, file.Text)
				return err
			})
			if err != nil {
				return fmt.Errorf("--emit-dir: %w", err)
			}
		}
	}
	return nil
}

// formatEmitted returns the files that are not written to a directory, each below its name.
func (p *planSheet) formatEmitted() string {
	var b strings.Builder
	for _, output := range p.emitted {
		for _, file := range output.Files {
			if dir := p.flags.emission.dir; dir != "" {
				fmt.Fprintf(&b, "Wrote %s\n", filepath.Join(dir, file.Name))
				continue
			}
			fmt.Fprintf(&b, "\n# File %s\n%s", file.Name, file.Text)
		}
	}
	return b.String()
}

// emittedDocument is the JSON form of a target.
type emittedDocument struct {
	Target       string            `json:"target"`
	Files        map[string]string `json:"files"` // texts by name
	NotExpressed []string          `json:"not_expressed"`
}

func (p *planSheet) emittedDocuments() []emittedDocument {
	var all []emittedDocument
	for _, output := range p.emitted {
		d := emittedDocument{Target: output.Target, Files: map[string]string{}, NotExpressed: append([]string{}, output.Missing...)}
		for _, file := range output.Files {
			d.Files[file.Name] = file.Text
		}
		all = append(all, d)
	}
	return all
}
