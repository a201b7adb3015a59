// Package starts converts the settings of a plan to the settings of servers that package launch writes.
package starts

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/plan"
	"github.com/replay-llm/replay/replay/deployment/launch"
	"github.com/replay-llm/replay/replay/engineargs"
	"github.com/replay-llm/replay/replay/engines"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
	"github.com/replay-llm/replay/scheduler/hardware"
)

// ClusterOf returns the cluster to start. settings are the given and chosen settings, by flag.
func ClusterOf(settings []plan.Setting, topology *engines.Topology) (*launch.Cluster, error) {
	engine := &topology.Entry().Engine
	fit, ok := engine.PassTimes.Fit()
	if !ok {
		return nil, errors.New("--emit requires --gpu and --model")
	}
	all := &launch.Cluster{
		Name: nameObjects(fit.Model.Name), Engine: engine.Engine.String(), Release: engines.NumberOf(engine), Model: checkpointOf(&fit.Model),
		GPU: fit.GPU.Name, Router: string(policy.RoundRobin),
	}
	if name, ok := topology.Choice().(policy.Name); ok {
		all.Router = string(name.Info().Name)
	} else if configured, ok := topology.Choice().(*policy.Configured); ok {
		all.Router = string(configured.Name)
	}
	all.Unknown = listOutside(settings)
	for i := range topology.Pools {
		p := &topology.Pools[i]
		own, err := settingsOf(settings, p)
		if err != nil {
			return nil, err
		}
		runs, ok := p.Engine.PassTimes.Fit()
		if !ok {
			return nil, errors.New("--emit requires --gpu and --model")
		}
		pool := launch.Pool{Workers: p.Count, GPUs: runs.GPUs(), Nodes: runs.Nodes(), Settings: own}
		if p.Role != scheduler.Aggregated {
			pool.Role = p.Role.String()
		}
		all.Pools = append(all.Pools, pool)
	}
	return all, nil
}

// checkpointOf returns the name of the model for a server.
func checkpointOf(m *hardware.Model) string {
	if name, ok := strings.CutPrefix(m.Source, "huggingface.co/"); ok {
		return name
	}
	return filepath.Dir(m.Source) // the folder of a config.json
}

// nameObjects converts a name to a valid name of Kubernetes objects.
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

// listOutside describes the settings of a plan that are not arguments of a server, such as router settings.
func listOutside(settings []plan.Setting) []string {
	outside := append(options.RouterFlags(), "router-config", "router-policy", "policy-process", "endpoint-picker", "endpoint-picker-skip", "admission",
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

// settingsOf returns the settings for the servers of a pool, by flag: the given settings, the chosen settings, and
// the limits that the plan assumed.
func settingsOf(settings []plan.Setting, p *engines.Pool) (map[string]string, error) {
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
	for _, s := range settings { // settings of a single pool have precedence
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

// addArguments adds the members of a JSON object of engine arguments. addArguments uses the name of the flag for
// members that have one.
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
