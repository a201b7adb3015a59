// Package launch writes the start commands of a cluster of servers: commands of vLLM, SGLang and TensorRT-LLM,
// manifests of Kubernetes, and graphs of Dynamo. Each of these outputs has its own names of settings. Package
// deployment can read the outputs.
//
// Read launch.go, then arguments.go, router.go, shell.go, kubernetes.go and dynamo.go.
package launch

import (
	"fmt"
	"slices"
	"strings"
)

// Cluster describes the servers to start.
type Cluster struct {
	Name    string // name of the Kubernetes objects and part of the host names
	Engine  string // vllm, sglang or trtllm
	Release string // release of the engine, such as 0.33.0
	Model   string // name on the Hugging Face hub, or a directory
	GPU     string // this program's name of the GPU
	Router  string // policy by this program's name
	Pools   []Pool
	Unknown []string // settings that no target supports, with their values
}

// Pool describes workers with equal settings.
type Pool struct {
	Role     string // prefill or decode; "": both
	Workers  int
	GPUs     int               // GPUs per worker
	Nodes    int               // nodes per worker
	Settings map[string]string // by flags of this program; an engine argument without a flag has its key
}

// File is one of the files of a target.
type File struct {
	Name, Text string
}

// Output is the start commands of a cluster for one target.
type Output struct {
	Target  string
	Files   []File
	Missing []string // settings that the target does not support, as in the comments of the first file
}

// Targets returns the names of all targets.
func Targets() []string { return []string{"vllm", "sglang", "trtllm", "dynamo", "kubernetes"} }

// Write returns the files that start a cluster.
func Write(target string, c *Cluster) (*Output, error) {
	if err := c.check(target); err != nil {
		return nil, err
	}
	w := &writer{Cluster: c, target: target, missing: slices.Clone(c.Unknown)}
	for i := range c.Pools {
		if p := &c.Pools[i]; p.Nodes > 1 {
			w.miss("a worker of %d GPUs spans %d nodes: each command starts one node; the engine's guide to several nodes has the rest", p.GPUs, p.Nodes)
		}
	}
	for i := range c.Pools {
		w.pools = append(w.pools, w.writeArguments(&c.Pools[i]))
	}
	var files []File
	switch target {
	case "kubernetes":
		files = w.writeKubernetes()
	case "dynamo":
		files = w.writeDynamo()
	default:
		files = w.writeShell()
	}
	return &Output{Target: target, Files: files, Missing: w.missing}, nil
}

// check returns an error for an unknown target and for a target of another engine.
func (c *Cluster) check(target string) error {
	switch {
	case !slices.Contains(Targets(), target):
		return fmt.Errorf("%s: must be some of %s", target, strings.Join(Targets(), ", "))
	case target != "kubernetes" && target != "dynamo" && target != c.Engine:
		return fmt.Errorf("%s: the plan is one of %s: --engine %s plans for it", target, c.Engine, target)
	}
	return nil
}

// writer writes the files of one target.
type writer struct {
	*Cluster
	target  string
	pools   []arguments
	missing []string
}

// miss records, once, something that the target does not support.
func (w *writer) miss(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if !slices.Contains(w.missing, text) {
		w.missing = append(w.missing, text)
	}
}

// isSplit reports whether prefill and decode have separate workers.
func (w *writer) isSplit() bool { return len(w.Pools) > 1 }

// countWorkers returns the number of workers in all pools.
func (w *writer) countWorkers() int {
	n := 0
	for i := range w.Pools {
		n += w.Pools[i].Workers
	}
	return n
}

// writeHead writes the comments at the beginning of a file.
func (w *writer) writeHead(b *strings.Builder) {
	fmt.Fprintf(b, "# %s, %s %s, %s: %s\n", w.Model, w.nameEngine(), w.Release, w.GPU, w.countAll())
	for _, text := range w.missing {
		fmt.Fprintf(b, "# Not expressed: %s\n", text)
	}
}

// nameEngine returns the usual spelling of the engine's name.
func (w *writer) nameEngine() string {
	return map[string]string{"vllm": "vLLM", "sglang": "SGLang", "trtllm": "TensorRT-LLM"}[w.Engine]
}

// countAll returns a text with the number of workers and of their GPUs.
func (w *writer) countAll() string {
	of := func(p *Pool) string {
		if p.GPUs == 1 {
			return " of 1 GPU"
		}
		return fmt.Sprintf(" of %d GPUs", p.GPUs)
	}
	var parts []string
	alike := !slices.ContainsFunc(w.Pools, func(p Pool) bool { return p.GPUs != w.Pools[0].GPUs })
	for i := range w.Pools {
		p := &w.Pools[i]
		noun := "workers"
		if p.Workers == 1 {
			noun = "worker"
		}
		part := strings.ReplaceAll(fmt.Sprintf("%d %s %s", p.Workers, p.Role, noun), "  ", " ")
		if !alike {
			part += of(p)
		}
		parts = append(parts, part)
	}
	all := strings.Join(parts, " and ")
	if alike {
		all += of(&w.Pools[0])
	}
	return all
}
