package launch

import (
	"fmt"
	"strings"
)

// dynamoRelease is the release of Dynamo that has the examples for these graphs.
const dynamoRelease = "1.3.1"

// runtimeImage returns Dynamo's image of the engine.
func (w *writer) runtimeImage() string {
	name := map[string]string{"vllm": "vllm", "sglang": "sglang", "trtllm": "tensorrtllm"}[w.Engine]
	return fmt.Sprintf("nvcr.io/nvidia/ai-dynamo/%s-runtime:%s", name, dynamoRelease)
}

// runtimeRelease returns the release of the engine in Dynamo's image, from the requirements of the package ai-dynamo
// on PyPI.
func (w *writer) runtimeRelease() string {
	return map[string]string{"vllm": "0.23.0", "sglang": "0.5.14", "trtllm": "1.3.0rc19"}[w.Engine]
}

// writeDynamo returns the files of a DynamoGraphDeployment.
func (w *writer) writeDynamo() []File {
	mode := "round-robin"
	if w.needsRouter() {
		mode = w.policy()
	}
	var b strings.Builder
	w.writeHead(&b)
	fmt.Fprintf(&b, "# The image must have %s %s. Dynamo's own has %s.\n", w.nameEngine(), w.Release, w.runtimeRelease())
	if w.Engine == "trtllm" {
		fmt.Fprintf(&b, "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: %s-config\ndata:\n", w.Name)
		writeTexts(&b, w.listConfigs())
		b.WriteString("---\n")
	}
	fmt.Fprintf(&b, "apiVersion: nvidia.com/v1alpha1\nkind: DynamoGraphDeployment\nmetadata:\n  name: %s\nspec:\n  services:\n", w.Name)
	fmt.Fprintf(&b, "    Frontend:\n      componentType: frontend\n      replicas: 1\n      envs:\n      - {name: DYN_ROUTER_MODE, value: %s}\n", mode)
	fmt.Fprintf(&b, "      extraPodSpec:\n        mainContainer:\n          image: %s\n", w.runtimeImage())
	for i := range w.Pools {
		w.writeDynamoPool(&b, i)
	}
	return []File{{"dynamo.yaml", b.String()}}
}

// writeDynamoPool writes the workers of a pool.
func (w *writer) writeDynamoPool(b *strings.Builder, pool int) {
	p := &w.Pools[pool]
	name := map[string]string{"": "Worker", "prefill": "PrefillWorker", "decode": "DecodeWorker"}[p.Role]
	fmt.Fprintf(b, "    %s:\n      envFromSecret: hf-token-secret\n      componentType: worker\n", name)
	if p.Role != "" {
		fmt.Fprintf(b, "      subComponentType: %s\n", p.Role)
	}
	fmt.Fprintf(b, "      replicas: %d\n      resources:\n        limits:\n          gpu: '%d'\n      extraPodSpec:\n", p.Workers, p.GPUs)
	if w.Engine == "trtllm" {
		fmt.Fprintf(b, "        volumes:\n        - name: config\n          configMap: {name: %s-config}\n", w.Name)
	}
	fmt.Fprintf(b, "        mainContainer:\n          image: %s\n", w.runtimeImage())
	if w.Engine == "trtllm" {
		b.WriteString("          volumeMounts:\n          - {name: config, mountPath: /config, readOnly: true}\n")
	}
	b.WriteString("          command:\n")
	writeList(b, "          ", []string{"python3", "-m", "dynamo." + w.Engine})
	b.WriteString("          args:\n")
	writeList(b, "          ", w.dynamoArguments(pool))
}

// dynamoArguments returns the arguments of Dynamo's worker, which include the arguments of the engine.
func (w *writer) dynamoArguments(pool int) []string {
	p := &w.Pools[pool]
	model := "--model"
	if w.Engine == "sglang" {
		model = "--model-path"
	}
	words := append([]string{model, w.Model}, w.pools[pool].words()...)
	if p.Role != "" {
		words = append(words, "--disaggregation-mode", p.Role)
	}
	events := w.followsEvents() && p.Role != "decode"
	switch w.Engine {
	case "vllm":
		if p.Role != "" {
			words = append(words, "--kv-transfer-config", `{"kv_connector":"NixlConnector","kv_role":"kv_both"}`)
		}
		if events {
			words = append(words, "--kv-events-config", `{"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:20080","enable_kv_cache_events":true}`)
		}
	case "sglang":
		if p.Role != "" {
			words = append(words, "--disaggregation-transfer-backend", "nixl", "--disaggregation-bootstrap-port", fmt.Sprint(bootstrapPort), "--host", "0.0.0.0")
		}
		if events {
			words = append(words, "--kv-events-config", `{"publisher":"zmq","topic":"kv-events","endpoint":"tcp://*:5557"}`)
		}
	default:
		words = append(words, "--extra-engine-args", "/config/"+w.configOf(p))
		// The worker announces this number and not the one in the settings file.
		if block := p.Settings["block-size"]; block != "" {
			words = append(words, "--kv-block-size", block)
		}
		if events {
			words = append(words, "--publish-kv-events")
		}
	}
	return words
}
