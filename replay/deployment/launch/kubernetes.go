package launch

import (
	"fmt"
	"strings"
)

// image returns the image with the engine's release.
func (w *writer) image() string {
	switch w.Engine {
	case "vllm":
		return "vllm/vllm-openai:v" + w.Release
	case "sglang":
		return "lmsysorg/sglang:v" + w.Release
	}
	if w.Release == "1.3.0" { // release 1.3.0 has no final version yet
		return "nvcr.io/nvidia/tensorrt-llm/release:" + latestTRTLLM
	}
	return "nvcr.io/nvidia/tensorrt-llm/release:" + w.Release
}

// latestTRTLLM is the latest release of TensorRT-LLM 1.3 on PyPI.
const latestTRTLLM = "1.3.0rc29"

// quoteText returns a text as a YAML scalar.
func quoteText(text string) string {
	return "'" + strings.ReplaceAll(text, "'", "''") + "'"
}

// writeList writes words as a YAML list.
func writeList(b *strings.Builder, indent string, words []string) {
	for _, word := range words {
		fmt.Fprintf(b, "%s- %s\n", indent, quoteText(word))
	}
}

// writeTexts writes files as the data of a ConfigMap.
func writeTexts(b *strings.Builder, files []File) {
	for _, file := range files {
		fmt.Fprintf(b, "  %s: |\n", file.Name)
		for line := range strings.Lines(file.Text) {
			b.WriteString("    " + line)
		}
	}
}

// poolName returns the name of the objects of a pool.
func (w *writer) poolName(p *Pool) string {
	if p.Role == "" {
		return w.Name + "-worker"
	}
	return w.Name + "-" + p.Role
}

// podHosts returns the host names of the pods of a pool. The headless service of the pool provides these names.
func (w *writer) podHosts(p *Pool) []string {
	all := make([]string, p.Workers)
	for i := range all {
		all[i] = fmt.Sprintf("%s-%d.%[1]s", w.poolName(p), i)
	}
	return all
}

// writeKubernetes returns the manifests of the workers and, if there are several workers, of a router. Several
// workers behind a router are a StatefulSet, and a single worker is a Deployment.
func (w *writer) writeKubernetes() []File {
	var b strings.Builder
	routed := w.needsRouter() && (w.Engine != "trtllm" || w.isSplit())
	var hosts [][]string
	for i := range w.Pools {
		hosts = append(hosts, w.podHosts(&w.Pools[i]))
		w.writePool(&b, i, routed)
	}
	switch {
	case routed:
		w.writeRouter(&b, hosts)
	case w.needsRouter():
		w.miss("router %s: the Service spreads connections at random, not requests", w.Router)
	}
	if w.Engine == "trtllm" {
		fmt.Fprintf(&b, "---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s-config\ndata:\n", w.Name)
		files := w.listConfigs()
		if routed {
			files = append(files, w.writeSplit(hosts))
		}
		writeTexts(&b, files)
	}
	var head strings.Builder
	w.writeHead(&head)
	head.WriteString("# A Secret hf-token with the key token has the token for the model's checkpoint, if it is gated.\n")
	return []File{{"kubernetes.yaml", head.String() + strings.TrimPrefix(b.String(), "---\n")}}
}

// writePool writes the workers of a pool and their service.
func (w *writer) writePool(b *strings.Builder, pool int, routed bool) {
	p := &w.Pools[pool]
	name, kind := w.poolName(p), "Deployment"
	if routed {
		kind = "StatefulSet"
	}
	fmt.Fprintf(b, "---\napiVersion: apps/v1\nkind: %s\nmetadata:\n  name: %s\n  labels: {app: %[2]s}\nspec:\n  replicas: %d\n", kind, name, p.Workers)
	if routed {
		fmt.Fprintf(b, "  serviceName: %s\n  podManagementPolicy: Parallel\n", name)
	}
	fmt.Fprintf(b, "  selector:\n    matchLabels: {app: %s}\n  template:\n    metadata:\n      labels: {app: %[1]s}\n    spec:\n      containers:\n      - name: server\n        image: %s\n", name, w.image())
	command := w.serverCommand()
	arguments := append(command[len(command)-1:], w.pools[pool].words()...)
	command = command[:len(command)-1]
	if w.Engine == "sglang" {
		arguments, command = append([]string{"--model-path"}, arguments...), command[:len(command)-1]
	}
	for _, x := range w.ownArguments(p, "/config/"+w.configOf(p)) {
		arguments = append(arguments, x.name, x.value)
	}
	b.WriteString("        command:\n")
	writeList(b, "        ", command)
	b.WriteString("        args:\n")
	writeList(b, "        ", arguments)
	w.writeEnvironment(b, p)
	fmt.Fprintf(b, "        ports:\n        - {name: http, containerPort: %d}\n", serverPort)
	b.WriteString("        readinessProbe:\n          httpGet: {path: /health, port: http}\n          periodSeconds: 10\n")
	b.WriteString("        startupProbe:\n          httpGet: {path: /health, port: http}\n          periodSeconds: 10\n          failureThreshold: 180\n")
	fmt.Fprintf(b, "        resources:\n          limits: {nvidia.com/gpu: %d}\n", p.GPUs)
	b.WriteString("        volumeMounts:\n        - {name: shm, mountPath: /dev/shm}\n")
	if w.Engine == "trtllm" {
		b.WriteString("        - {name: config, mountPath: /config, readOnly: true}\n")
	}
	b.WriteString("      volumes:\n      - name: shm\n        emptyDir: {medium: Memory}\n")
	if w.Engine == "trtllm" {
		fmt.Fprintf(b, "      - name: config\n        configMap: {name: %s-config}\n", w.Name)
	}
	service := name
	if !routed {
		service = w.Name
	}
	fmt.Fprintf(b, "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: %s\nspec:\n", service)
	if routed {
		b.WriteString("  clusterIP: None\n  publishNotReadyAddresses: true\n")
	}
	fmt.Fprintf(b, "  selector: {app: %s}\n  ports:\n  - {name: http, port: %d, targetPort: http}\n", name, serverPort)
}

// writeEnvironment writes the environment variables of a server.
func (w *writer) writeEnvironment(b *strings.Builder, p *Pool) {
	b.WriteString("        env:\n        - name: HF_TOKEN\n          valueFrom:\n            secretKeyRef: {name: hf-token, key: token, optional: true}\n")
	if p.Role != "" && w.Engine == "vllm" {
		b.WriteString("        - name: VLLM_NIXL_SIDE_CHANNEL_HOST\n          valueFrom:\n            fieldRef: {fieldPath: status.podIP}\n")
		fmt.Fprintf(b, "        - {name: VLLM_NIXL_SIDE_CHANNEL_PORT, value: '%d'}\n", transferPort)
	}
}

// writeRouter writes the router and its service.
func (w *writer) writeRouter(b *strings.Builder, hosts [][]string) {
	name, image, note := w.Name+"-router", w.image(), ""
	if w.Engine == "vllm" {
		image, note = "vllm-router:0.1.17", " # an image of yours with pip install "+vllmRouter
	}
	fmt.Fprintf(b, "---\napiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: %s\n  labels: {app: %[1]s}\nspec:\n  replicas: 1\n  selector:\n    matchLabels: {app: %[1]s}\n  template:\n", name)
	fmt.Fprintf(b, "    metadata:\n      labels: {app: %s}\n    spec:\n      containers:\n      - name: router\n        image: %s%s\n        command:\n", name, image, note)
	words, groups := w.routerCommand(hosts)
	writeList(b, "        ", words)
	b.WriteString("        args:\n")
	for _, group := range groups {
		writeList(b, "        ", group)
	}
	fmt.Fprintf(b, "        ports:\n        - {name: http, containerPort: %d}\n        readinessProbe:\n          httpGet: {path: /health, port: http}\n", serverPort)
	if w.Engine == "trtllm" {
		fmt.Fprintf(b, "        volumeMounts:\n        - {name: config, mountPath: /config, readOnly: true}\n      volumes:\n      - name: config\n        configMap: {name: %s-config}\n", w.Name)
	}
	fmt.Fprintf(b, "---\napiVersion: v1\nkind: Service\nmetadata:\n  name: %s\nspec:\n  selector: {app: %s}\n  ports:\n  - {name: http, port: %d, targetPort: http}\n", w.Name, name, serverPort)
}
