package launch

import (
	"fmt"
	"slices"
	"strings"
)

// configName is the settings file of a TensorRT-LLM server.
const configName = "trtllm.yaml"

// configOf returns the name of the settings file of a pool. All pools have one common file unless their settings
// differ.
func (w *writer) configOf(p *Pool) string {
	if slices.ContainsFunc(w.pools, func(a arguments) bool { return !slices.Equal(a.config, w.pools[0].config) }) {
		return p.Role + "-" + configName
	}
	return configName
}

// listConfigs returns the settings files of the TensorRT-LLM servers.
func (w *writer) listConfigs() []File {
	var all []File
	for i := range w.Pools {
		file := File{w.configOf(&w.Pools[i]), writeFlat(w.pools[i].config)}
		if !slices.Contains(all, file) {
			all = append(all, file)
		}
	}
	return all
}

// serverCommand returns the words of a command that starts a server, up to its arguments.
func (w *writer) serverCommand() []string {
	switch w.Engine {
	case "vllm":
		return []string{"vllm", "serve", w.Model}
	case "sglang":
		return []string{"python3", "-m", "sglang.launch_server", "--model-path", w.Model}
	}
	return []string{"trtllm-serve", "serve", w.Model}
}

// ownArguments returns the arguments that follow from the role of a server's pool and from the router.
func (w *writer) ownArguments(p *Pool, config string) []argument {
	all := []argument{{"--host", "0.0.0.0"}, {"--port", fmt.Sprint(serverPort)}}
	switch w.Engine {
	case "vllm":
		if p.Role != "" {
			all = append(all, argument{"--kv-transfer-config", `{"kv_connector":"NixlConnector","kv_role":"kv_both"}`})
		}
		if w.followsEvents() {
			all = append(all, argument{"--kv-events-config", fmt.Sprintf(`{"enable_kv_cache_events":true,"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:%d"}`, eventsPort)})
		}
	case "sglang":
		if p.Role != "" {
			all = append(all, argument{"--disaggregation-mode", p.Role}, argument{"--disaggregation-transfer-backend", "nixl"})
		}
		if p.Role == "prefill" {
			all = append(all, argument{"--disaggregation-bootstrap-port", fmt.Sprint(bootstrapPort)})
		}
	default:
		all = append(all, argument{"--config", config})
	}
	return all
}

// hostsOf returns the host names of a pool.
func (w *writer) hostsOf(p *Pool, pattern string) []string {
	name := p.Role
	if name == "" {
		name = "worker"
	}
	all := make([]string, p.Workers)
	for i := range all {
		all[i] = fmt.Sprintf(pattern, name, i+1)
	}
	return all
}

// writeShell returns the start commands of the servers and of their router.
func (w *writer) writeShell() []File {
	var b strings.Builder
	var hosts [][]string
	for i := range w.Pools {
		p := &w.Pools[i]
		hosts = append(hosts, w.hostsOf(p, "%s-%d"))
		fmt.Fprintf(&b, "\n# On %s:\n", nameHosts(hosts[i]))
		if p.Role != "" && w.Engine == "vllm" {
			fmt.Fprintf(&b, "VLLM_NIXL_SIDE_CHANNEL_HOST=$(hostname -i) VLLM_NIXL_SIDE_CHANNEL_PORT=%d \\\n", transferPort)
		}
		b.WriteString(strings.Join(w.serverCommand(), " "))
		for _, x := range append(w.pools[i].list, w.ownArguments(p, w.configOf(p))...) {
			fmt.Fprintf(&b, " \\\n  %s", x.name)
			if x.value != "" {
				b.WriteString(" " + quoteWord(x.value))
			}
		}
		b.WriteString("\n")
	}
	if w.needsRouter() {
		w.writeShellRouter(&b, hosts)
	}
	var configs []File
	if w.Engine == "trtllm" {
		configs = w.listConfigs()
		if w.isSplit() {
			configs = append(configs, w.writeSplit(hosts))
		}
	}
	var head strings.Builder
	w.writeHead(&head)
	return append([]File{{w.target + ".sh", head.String() + b.String()}}, configs...)
}

// writeShellRouter writes the command of the router.
func (w *writer) writeShellRouter(b *strings.Builder, hosts [][]string) {
	if w.Engine == "trtllm" && !w.isSplit() {
		w.miss("router %s: trtllm-serve has no router for servers that do prefill and decode: a load balancer in front of them has it", w.Router)
		return
	}
	words, groups := w.routerCommand(hosts)
	source := map[string]string{"vllm": " (pip install " + vllmRouter + ")", "sglang": " (pip install sglang-router)"}[w.Engine]
	fmt.Fprintf(b, "\n# On the router%s:\n%s", source, strings.Join(words, " "))
	for _, group := range groups {
		fmt.Fprintf(b, " \\\n  %s", group[0])
		joint := " "
		if len(group) > 3 {
			joint = " \\\n    "
		}
		for _, word := range group[1:] {
			b.WriteString(joint + quoteWord(word))
		}
	}
	b.WriteString("\n")
}

// nameHosts returns a text with the first and the last of the hosts.
func nameHosts(hosts []string) string {
	if len(hosts) == 1 {
		return hosts[0]
	}
	return fmt.Sprintf("each of %s to %s", hosts[0], hosts[len(hosts)-1])
}
