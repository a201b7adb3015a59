package launch

import (
	"cmp"
	"fmt"
	"strings"
)

// The constants are releases of routers. The arguments of routers were checked with the parsers of these releases.
const (
	vllmRouter = "vllm-router==0.1.17"
)

// The constants are ports of the servers.
const (
	serverPort    = 8000
	eventsPort    = 5557
	transferPort  = 5600
	bootstrapPort = 8998
)

// needsRouter reports whether the cluster has several workers that need a router.
func (w *writer) needsRouter() bool { return w.isSplit() || w.countWorkers() > 1 }

// followsEvents reports whether the router reads the KV events of the servers.
func (w *writer) followsEvents() bool {
	return w.needsRouter() && w.Router == "kv" && (w.target == "dynamo" || w.Engine == "vllm" && !w.isSplit())
}

// policy returns the name of the policy in the router of the target.
func (w *writer) policy() string {
	names := map[string]string{"round_robin": "round_robin", "random": "random", "p2c": "power_of_two"}
	if w.target == "dynamo" {
		names = map[string]string{"kv": "kv", "round_robin": "round-robin", "random": "random", "p2c": "power-of-two", "least-loaded": "least-loaded"}
	} else if w.Engine == "vllm" {
		names["session"], names["consistent_hash"], names["sticky_least_loaded"] = "consistent_hash", "consistent_hash", "sticky_least_loaded"
	} else if w.Engine == "trtllm" {
		names = map[string]string{"round_robin": "round_robin", "least-loaded": "load_balancing"}
	}
	if name := names[w.Router]; name != "" {
		return name
	}
	switch {
	case w.Router == "kv" && w.followsEvents():
		w.miss("router kv: kv_aware of vllm-router follows KV events too, by a cost of its maker; --emit dynamo has the router of the plan")
		return "kv_aware"
	case w.Router == "kv" && w.Engine == "trtllm":
		w.miss("router kv: kv_cache_aware of trtllm-serve follows KV events too, by a cost of its maker; --emit dynamo has the router of the plan")
		return "kv_cache_aware"
	case w.Router == "kv":
		w.miss("router kv: cache_aware of the router below guesses from earlier prompts what is cached; --emit dynamo has the router of the plan")
		return "cache_aware"
	case w.target == "dynamo":
		w.miss("router %s: Dynamo has no such mode", w.Router)
		return "round-robin"
	case w.Engine == "trtllm":
		w.miss("router %s: the router below has no such policy; load_balancing is the nearest", w.Router)
		return "load_balancing"
	}
	w.miss("router %s: the router below has no such policy; power_of_two is the nearest", w.Router)
	return "power_of_two"
}

// routerCommand returns the command of the router and the groups of its arguments. The hosts of the servers are
// listed by pool.
func (w *writer) routerCommand(hosts [][]string) (words []string, groups [][]string) {
	if w.Engine == "trtllm" {
		return []string{"trtllm-serve", "disaggregated"}, [][]string{{"--config", w.place(splitName)}}
	}
	policy := w.policy()
	address := func(host string) string { return fmt.Sprintf("http://%s:%d", host, serverPort) }
	words = []string{"vllm-router"}
	if w.Engine == "sglang" {
		words = []string{"python3", "-m", "sglang_router.launch_router"}
	}
	groups = append(groups, []string{"--host", "0.0.0.0"}, []string{"--port", fmt.Sprint(serverPort)}, []string{"--policy", policy})
	if w.isSplit() {
		groups = append(groups, []string{map[string]string{"vllm": "--vllm-pd-disaggregation", "sglang": "--pd-disaggregation"}[w.Engine]})
		for _, host := range hosts[0] {
			group := []string{"--prefill", address(host)}
			if w.Engine == "sglang" {
				group = append(group, fmt.Sprint(bootstrapPort))
			}
			groups = append(groups, group)
		}
		for _, host := range hosts[1] {
			groups = append(groups, []string{"--decode", address(host)})
		}
		return words, groups
	}
	urls := []string{"--worker-urls"}
	for _, host := range hosts[0] {
		urls = append(urls, address(host))
	}
	groups = append(groups, urls)
	if policy == "kv_aware" {
		block := w.Pools[0].Settings["block-size"]
		if block == "" {
			block = "16" // vLLM's default
		}
		groups = append(groups, []string{"--kv-event-block-size", block}, []string{"--kv-event-model", w.Model})
		for _, host := range hosts[0] {
			groups = append(groups, []string{"--kv-event-source", fmt.Sprintf("%s=tcp://%s:%d", address(host), host, eventsPort)})
		}
	}
	return words, groups
}

// splitName is the settings file of the router of trtllm-serve for separate prefill and decode servers.
const splitName = "disaggregated.yaml"

// place returns the path of a settings file in the target.
func (w *writer) place(name string) string {
	if w.target == "kubernetes" {
		return "/config/" + name
	}
	return name
}

// writeSplit returns the settings file of the router of trtllm-serve.
func (w *writer) writeSplit(hosts [][]string) File {
	policy := w.policy()
	var b strings.Builder
	fmt.Fprintf(&b, "hostname: 0.0.0.0\nport: %d\n", serverPort)
	for i, kind := range []string{"context_servers", "generation_servers"} {
		fmt.Fprintf(&b, "%s:\n  num_instances: %d\n  urls:\n", kind, len(hosts[i]))
		for _, host := range hosts[i] {
			fmt.Fprintf(&b, "  - %s:%d\n", host, serverPort)
		}
		fmt.Fprintf(&b, "  router:\n    type: %s\n", policy)
		if policy == "kv_cache_aware" {
			fmt.Fprintf(&b, "    tokens_per_block: %s\n", cmp.Or(w.Pools[i].Settings["block-size"], tokensPerBlock))
		}
	}
	return File{splitName, b.String()}
}
