package plans

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/nearest"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/collector"
	"github.com/replay-llm/replay/replay/deployment/launch"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/timing"
)

// emission says which start commands and manifests of the recommended cluster are written, and where.
type emission struct {
	targets []string
	dir     string
}

func (e *emission) bind(fs *pflag.FlagSet) {
	fs.StringSliceVar(&e.targets, "emit", nil, "also write what starts the recommended cluster, for `targets` of\n"+strings.Join(launch.Targets(), ", "))
	fs.StringVar(&e.dir, "emit-dir", "", "`directory` for the files of --emit; without it standard output")
}

// check refuses targets that the plan cannot be written for.
func (e *emission) check(o *options.Options) error {
	for _, target := range e.targets {
		if !slices.Contains(launch.Targets(), target) {
			return cli.Usagef("--emit=%s: must be some of %s%s", target, strings.Join(launch.Targets(), ", "), nearest.Ask(target, launch.Targets()))
		}
		engine := engineOf(o)
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

// emit returns what starts the recommended cluster, nothing where none was found.
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
	cluster, err := launchOf(&p.runner.choices[best.Variant], shape)
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

// writeEmitted writes what starts the recommended cluster to the directory that is wanted, and warns of what it lacks.
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

// emittedDocument is a target for programs.
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

// launchOf returns a cluster of a choice as it is started.
func launchOf(c *chosen, shape plan.Shape) (*launch.Cluster, error) {
	if c.isMixed() {
		return nil, cli.Usagef("--emit: not with workers of several kinds")
	}
	topology := c.clusterOf(shape)
	engine := &topology.Entry().Engine
	path, ok := timing.CutFit(engine.ProfilePath)
	if !ok {
		return nil, errors.New("--emit: only with --gpu and --model")
	}
	fit, err := hardware.ParseFit(path)
	if err != nil {
		return nil, err
	}
	all := &launch.Cluster{
		Name: nameObjects(fit.Model.Name), Engine: engine.Engine.String(), Release: engines.NumberOf(engine), Model: checkpointOf(&fit.Model),
		GPU: fit.GPU.Name, GPUs: fit.GPUs(), Nodes: fit.Nodes(), Router: string(policy.RoundRobin),
	}
	if name, ok := topology.Choice().(policy.Name); ok {
		all.Router = string(name.Info().Name)
	} else if configured, ok := topology.Choice().(*policy.Configured); ok {
		all.Router = string(configured.Name)
	}
	all.Unknown = listOutside(c.settings)
	for i := range topology.Pools {
		p := &topology.Pools[i]
		settings, err := settingsOf(c.settings, p)
		if err != nil {
			return nil, err
		}
		pool := launch.Pool{Workers: p.Count, Settings: settings}
		if p.Role != scheduler.Aggregated {
			pool.Role = p.Role.String()
		}
		all.Pools = append(all.Pools, pool)
	}
	return all, nil
}

// checkpointOf returns how a server names the model.
func checkpointOf(m *hardware.Model) string {
	if name, ok := strings.CutPrefix(m.Source, "huggingface.co/"); ok {
		return name
	}
	return filepath.Dir(m.Source) // of a config.json
}

// nameObjects returns a name as Kubernetes takes it.
func nameObjects(text string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= '0' && r <= '9' {
			return r
		}
		return '-'
	}, strings.ToLower(filepath.Base(text)))
	name = strings.Trim(name[:min(len(name), 40)], "-")
	if name == "" || name[0] >= '0' && name[0] <= '9' {
		name = "model-" + name
	}
	return name
}

// listOutside returns settings of a plan that are of the router and of how prefill and decode share the work, in words.
func listOutside(settings []plan.Setting) []string {
	outside := append(options.RouterFlags(), "router-config", "router-policy", "policy-process", "endpoint-picker", "admission",
		"worker-speed", "prefill-worker-speed", "decode-worker-speed", "pd-threshold", "pd-when", "decode-chosen", "kv-transfer-sharing", "kv-transfer", "hold-prefill-blocks", "decode-admission")
	var all []string
	for _, s := range settings {
		isFile := s.Name == "router" && strings.HasSuffix(s.Value, ".yaml")
		if slices.Contains(outside, s.Name) || isFile {
			all = append(all, s.Name+" "+s.Value+": no argument of a server; the router and the workers have to be set up for it")
		}
	}
	return all
}

// settingsOf returns the settings of the servers of a pool by flag: those that were given or chosen, and the limits that the plan
// has taken for granted.
func settingsOf(settings []plan.Setting, p *replay.Pool) (map[string]string, error) {
	all := map[string]string{}
	for flag, n := range engines.LimitsOf(&p.Engine) {
		all[flag] = strconv.Itoa(n)
	}
	if p.Engine.Engine.String() == "vllm" {
		all["gpu-memory-utilization"] = fmt.Sprint(hardware.DefaultUtilization)
	}
	flags := map[string]bool{}
	byKey := map[string]string{}
	for _, r := range options.EngineRows() {
		if r.Flag != "" {
			flags[r.Flag], byKey[r.Key] = true, r.Flag
		}
	}
	role := ""
	if p.Role != scheduler.Aggregated {
		role = p.Role.String() + "-"
	}
	for _, s := range settings { // those of one pool win
		if s.Name == role+"engine-args" || s.Name == "engine-args" {
			if err := addArguments(all, s.Value, byKey); err != nil {
				return nil, err
			}
		}
	}
	for _, s := range settings {
		if flags[s.Name] {
			all[s.Name] = s.Value
		}
	}
	for _, s := range settings {
		if name, ok := strings.CutPrefix(s.Name, role); ok && role != "" && flags[name] {
			all[name] = s.Value
		}
	}
	for old, flag := range map[string]string{"page-size": "block-size", "context-length": "max-model-len"} {
		if value := all[old]; value != "" {
			all[flag] = value
		}
		delete(all, old)
	}
	return all, nil
}

// addArguments adds the members of an object of engine arguments, by flag where they have one.
func addArguments(all map[string]string, argument string, byKey map[string]string) error {
	text, err := engineargs.Load(argument)
	if err != nil {
		return err
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(text, &members); err != nil {
		return err
	}
	add := func(key string, raw json.RawMessage) {
		value := string(raw)
		var word string
		if json.Unmarshal(raw, &word) == nil {
			value = word
		}
		if flag := byKey[key]; flag != "" {
			key = flag
		}
		all[key] = value
	}
	for key, raw := range members {
		var inner map[string]json.RawMessage
		if (key == "sglang" || key == "trtllm") && json.Unmarshal(raw, &inner) == nil {
			for name, value := range inner {
				add(key+"."+name, value)
			}
			continue
		}
		if key != "worker_type" && key != "is_prefill" && key != "is_decode" && key != "engine_type" && string(raw) != "null" {
			add(key, raw)
		}
	}
	return nil
}
