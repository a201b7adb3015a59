package launch

import (
	"fmt"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/replay-llm/replay/internal/cmd/yamlfile"
	"github.com/replay-llm/replay/replay/deployment"
	"github.com/replay-llm/replay/schema"
)

// fields lists the names that a program accepts, by the kind of file. Each name has its types or values.
type fields map[string]map[string][]string

// readFields reads lists of fields.
func readFields(t *testing.T, name string) fields {
	t.Helper()
	text, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	all := fields{}
	for line := range strings.Lines(string(text)) {
		if words := strings.Fields(line); !strings.HasPrefix(line, "#") {
			if all[words[0]] == nil {
				all[words[0]] = map[string][]string{}
			}
			all[words[0]][words[1]] = words[2:]
		}
	}
	return all
}

// check returns an error if a file of this kind has a name that is not listed, or a value of another type.
func (f fields) check(kind, name string, value any) error {
	types, ok := f[kind][name]
	if !ok {
		for pattern, own := range f[kind] {
			if matched, _ := path.Match(strings.ReplaceAll(pattern, ".", "/"), strings.ReplaceAll(name, ".", "/")); matched {
				types, ok = own, true
			}
		}
	}
	if !ok {
		return fmt.Errorf("%s: no such name", name)
	}
	text := fmt.Sprint(value)
	_, isText := value.(string)
	_, isBool := value.(bool)
	n, err := strconv.ParseFloat(text, 64)
	isNumber := err == nil && !isText
	switch types[0] {
	case "int":
		ok = isNumber && n == float64(int64(n)) && n >= 0
	case "float":
		low, _ := strconv.ParseFloat(types[1], 64)
		high, _ := strconv.ParseFloat(types[2], 64)
		ok = isNumber && n >= low && n <= high
	case "bool":
		ok = isBool
	case "null":
		ok = value == nil
	case "string", "strings": // a scalar, or each scalar of a list
		ok = isText
	default:
		ok = isText && slices.Contains(types, text)
	}
	if !ok {
		return fmt.Errorf("%s is %v (%T), must be %s", name, value, value, strings.Join(types, " "))
	}
	return nil
}

// checkAll checks each scalar inside a value.
func (f fields) checkAll(kind, name string, value any) []error {
	var all []error
	switch v := value.(type) {
	case map[string]any:
		for key, x := range v {
			all = append(all, f.checkAll(kind, strings.TrimPrefix(name+"."+key, "."), x)...)
		}
	case []any:
		for _, x := range v {
			all = append(all, f.checkAll(kind, name, x)...)
		}
	default:
		if err := f.check(kind, name, v); err != nil {
			all = append(all, err)
		}
	}
	return all
}

// readDocuments returns the documents in a YAML text.
func readDocuments(t *testing.T, name, text string) []any {
	t.Helper()
	all, err := yamlfile.ListValues(name, []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// clustersOfEachValue returns clusters of TensorRT-LLM that together have each value of each setting of the engine,
// for one pool and for two.
func clustersOfEachValue() map[string]*Cluster {
	all := map[string]*Cluster{}
	for name, c := range cases() {
		if c.Engine == "trtllm" {
			all[name] = c
		}
	}
	for _, base := range []string{"trtllm", "trtllm-uneven"} {
		for _, r := range rowsInOrder() {
			if r.Flag == "" || isSimulated(r.Flag) || r.Only != "" && r.Only != "trtllm" {
				continue
			}
			values := map[schema.Kind][]string{schema.Int: {"7"}, schema.Limit: {"7"}, schema.Real: {"0.55"}, schema.Factor: {"0.55"}, schema.Bool: {"true", "false"}}[r.Kind]
			for _, value := range append(values, r.Names...) {
				for _, router := range []string{"kv", "round_robin", "p2c", "least-loaded", "session"} {
					c := *cases()[base]
					c.Router = router
					for i := range c.Pools {
						c.Pools[i].Settings = maps.Clone(c.Pools[i].Settings)
						c.Pools[i].Settings[r.Flag] = value
					}
					all[fmt.Sprintf("%s with %s=%s, router %s", base, r.Flag, value, router)] = &c
				}
			}
		}
	}
	return all
}

// TestFieldsOfTRTLLM checks that the files for trtllm-serve have only settings of TensorRT-LLM, with values of the
// correct types.
func TestFieldsOfTRTLLM(t *testing.T) {
	f := readFields(t, "trtllm.fields")
	checkFile := func(name, file, text string) {
		for _, document := range readDocuments(t, file, text) {
			kind := "settings"
			if file == splitName {
				kind = "router"
			}
			for _, err := range f.checkAll(kind, "", document) {
				t.Errorf("%s: %s: %v", name, file, err)
			}
		}
	}
	files := 0
	for name, c := range clustersOfEachValue() {
		for _, target := range targetsOf(c) {
			out, err := Write(target, c)
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range out.Files {
				if !strings.HasSuffix(file.Name, ".sh") && target == "trtllm" {
					checkFile(name, file.Name, file.Text)
					files++
				}
				if target == "trtllm" {
					continue
				}
				for _, document := range readDocuments(t, file.Name, file.Text) {
					object := document.(map[string]any)
					if object["kind"] == "ConfigMap" {
						for inner, text := range object["data"].(map[string]any) {
							checkFile(name+" for "+target, inner, text.(string))
							files++
						}
					}
				}
			}
			if target == "trtllm" {
				for _, err := range checkWords(f, out.Files[0].Text) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
	if files < 500 {
		t.Errorf("%d files, must be at least 500", files)
	}
	for name, value := range map[string]any{"scheduler_config.capacity_scheduler_policy": "MAX_REQUESTS", "max_batch_size": "8", "batch_wait_max_tokens_ratio": 1.5, "tensor_parallel": 4} {
		if f.check("settings", name, value) == nil {
			t.Errorf("%s: %v is taken", name, value)
		}
	}
}

// checkWords checks the arguments of the commands in a script for trtllm-serve.
func checkWords(f fields, script string) (all []error) {
	for line := range strings.Lines(strings.ReplaceAll(script, "\\\n", " ")) {
		words := strings.Fields(line)
		if len(words) == 0 || words[0] != "trtllm-serve" {
			continue
		}
		for i, word := range words {
			if !strings.HasPrefix(word, "--") {
				continue
			}
			var value any = words[i+1]
			if n, err := strconv.Atoi(words[i+1]); err == nil {
				value = n
			}
			if err := f.check(words[1], word, value); err != nil {
				all = append(all, err)
			}
		}
	}
	return all
}

// TestFieldsOfGraphs checks that graphs of Dynamo have only fields of its operator's DynamoGraphDeployment. The
// ConfigMaps that the graphs name must be in the file.
func TestFieldsOfGraphs(t *testing.T) {
	f := readFields(t, "dynamo.fields")
	graphs := 0
	for name, c := range cases() {
		out, err := Write("dynamo", c)
		if err != nil {
			t.Fatal(err)
		}
		for _, document := range readDocuments(t, name, out.Files[0].Text) {
			if object := document.(map[string]any); object["kind"] == "DynamoGraphDeployment" {
				graphs++
				for _, err := range f.checkAll("graph", "", document) {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
	}
	if graphs != len(cases()) {
		t.Errorf("%d graphs, must be %d", graphs, len(cases()))
	}
}

// TestPoolsHaveTheirGPUs checks that every target gives the workers of a pool the GPUs and the parallelism of that
// pool. A container may use exactly the GPUs that its command uses.
func TestPoolsHaveTheirGPUs(t *testing.T) {
	for name, c := range cases() {
		if len(c.Pools) < 2 {
			continue
		}
		for _, target := range []string{"dynamo", "kubernetes"} {
			out, err := Write(target, c)
			if err != nil {
				t.Fatal(err)
			}
			configs, got := map[string]string{}, map[string]string{}
			for range 2 { // twice, because a ConfigMap may be the last document
				for _, document := range readDocuments(t, name, out.Files[0].Text) {
					collectPools(got, configs, document)
				}
			}
			for _, p := range c.Pools {
				if want := fmt.Sprintf("%d workers of %d GPUs, TP %s", p.Workers, p.GPUs, p.Settings["tp"]); got[p.Role] != want {
					t.Errorf("%s for %s: %s: %s, must be %s", name, target, p.Role, got[p.Role], want)
				}
			}
		}
	}
}

// collectPools adds the workers of the pools in a document, by role, and the files of its ConfigMaps.
func collectPools(got, configs map[string]string, document any) {
	object := document.(map[string]any)
	add := func(name string, replicas, gpus any, container map[string]any) {
		var words []string
		for _, list := range []any{container["command"], container["args"]} {
			for _, word := range list.([]any) {
				words = append(words, word.(string))
			}
		}
		command, ok := deployment.ReadCommand(words)
		if !ok {
			return
		}
		config := map[string]string{}
		if command.Engine == "trtllm" {
			config = flattenText(configs[path.Base(command.Config)])
		}
		flags, err := command.Flags(config)
		role := "decode"
		if strings.Contains(strings.ToLower(name), "prefill") {
			role = "prefill"
		}
		got[role] = fmt.Sprintf("%v workers of %v GPUs, TP %s", replicas, gpus, flags["tp"])
		if err != nil {
			got[role] = err.Error()
		}
	}
	inner := func(value any, keys ...string) any {
		for _, key := range keys {
			value = value.(map[string]any)[key]
		}
		return value
	}
	switch object["kind"] {
	case "ConfigMap":
		for name, text := range object["data"].(map[string]any) {
			configs[name] = text.(string)
		}
	case "DynamoGraphDeployment":
		for name, service := range inner(object, "spec", "services").(map[string]any) {
			if name != "Frontend" {
				add(name, inner(service, "replicas"), inner(service, "resources", "limits", "gpu"), inner(service, "extraPodSpec", "mainContainer").(map[string]any))
			}
		}
	case "StatefulSet":
		container := inner(object, "spec", "template", "spec", "containers").([]any)[0].(map[string]any)
		add(fmt.Sprint(inner(object, "metadata", "name")), inner(object, "spec", "replicas"), inner(container, "resources", "limits", "nvidia.com/gpu"), container)
	}
}
