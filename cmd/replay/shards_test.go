package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/replay-llm/replay/internal/cmd/cli/clitest"
	"github.com/replay-llm/replay/internal/optional"
)

// container is the part of a Kubernetes container that a sweep uses.
type container struct {
	Command, Args []string
	WorkingDir    string `yaml:"workingDir"`
}

// runAs runs the command of a container, with the values of its parameters.
func (c *container) runAs(t *testing.T, parameters ...string) {
	t.Helper()
	var out, errs bytes.Buffer
	var args []string
	for _, arg := range c.Args {
		args = append(args, strings.NewReplacer(parameters...).Replace(arg))
	}
	if code := run(args, nil, &out, &errs); code != 0 || c.Command[0] != "replay" || c.WorkingDir != "/sweep" {
		t.Fatalf("%v %v: exit %d: %s", c.Command, args, code, &errs)
	}
}

// job is the part of a Kubernetes Job that a sweep uses.
type job struct {
	Spec struct {
		Completions int
		Template    struct {
			Spec struct{ Containers []container }
		}
	}
}

// runKubernetes runs the Jobs of a sweep.
func runKubernetes(t *testing.T, text []byte) {
	shards, merge, found := bytes.Cut(text, []byte("\n---\n"))
	var first, last job
	if err := yaml.Unmarshal(shards, &first); err != nil || !found {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(merge, &last); err != nil {
		t.Fatal(err)
	}
	for i := range first.Spec.Completions {
		first.Spec.Template.Spec.Containers[0].runAs(t, "$(JOB_COMPLETION_INDEX)", strconv.Itoa(i))
	}
	last.Spec.Template.Spec.Containers[0].runAs(t)
}

// runArgo runs the workflow of a sweep.
func runArgo(t *testing.T, text []byte) {
	var flow struct {
		Spec struct {
			Entrypoint string
			Arguments  struct {
				Parameters []struct{ Name, Value string }
			}
			Templates []struct {
				Name  string
				Steps [][]struct {
					Template string
					Sequence struct{ Start, End string } `yaml:"withSequence"`
				}
				Container container
			}
		}
	}
	if err := yaml.Unmarshal(text, &flow); err != nil {
		t.Fatal(err)
	}
	const all = "{{workflow.parameters.shards}}"
	shards := flow.Spec.Arguments.Parameters[0].Value
	for i, template := range []string{"shard", "merge"} {
		step := flow.Spec.Templates[0].Steps[i][0]
		if step.Template != template || flow.Spec.Templates[i+1].Name != template {
			t.Fatalf("step %d: %+v", i, step)
		}
		n := 1
		if step.Sequence.End == all {
			n, _ = strconv.Atoi(shards)
		}
		for k := range n {
			flow.Spec.Templates[i+1].Container.runAs(t, all, shards, "{{inputs.parameters.shard}}", strconv.Itoa(k+1))
		}
	}
}

// runScript runs a program of a sweep, with stubs of the programs that it starts.
func runScript(t *testing.T, args []string, stubs map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range stubs {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	clitest.EnterPath(t, "replay")
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("PYTHONPATH", dir)
	if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", args, err, out)
	}
}

// sbatch is a stub of Slurm that runs a job immediately: the tasks of an array in reverse order, or one command after
// job 17.
const sbatch = `#!/bin/sh
set -eu
for arg; do case $arg in
	--array=1-*) last=${arg#--array=1-};;
	--dependency=*) [ "$arg" = --dependency=afterok:17 ];;
esac; command=$arg; done
i=${last:-1}
while [ $i -gt 0 ]; do SLURM_ARRAY_TASK_ID=$i sh -c "$command" >&2; i=$((i - 1)); done
echo 17
`

// ray is a stub of Ray that runs tasks immediately.
const ray = `
def init(): pass
def get(results): return results
def remote(**options):
    def wrap(function):
        function.remote = function
        return function
    return wrap
`

// The files in examples/scale give the same table as one process.
func TestExamplesOfScale(t *testing.T) {
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	scale := filepath.Join(here, "../../examples/scale")
	read := func(name string) []byte {
		text, err := os.ReadFile(filepath.Join(scale, name))
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	for name, do := range map[string]func(t *testing.T){
		"kubernetes": func(t *testing.T) { runKubernetes(t, read("kubernetes.yaml")) },
		"argo":       func(t *testing.T) { runArgo(t, read("argo.yaml")) },
		"slurm": func(t *testing.T) {
			runScript(t, []string{optional.Program(t, "sh", "-c", "true"), filepath.Join(scale, "slurm.sh"), "grid.yaml", "4"}, map[string]string{"sbatch": sbatch})
		},
		"ray": func(t *testing.T) {
			runScript(t, []string{optional.Python(t), filepath.Join(scale, "ray_sweep.py"), "grid.yaml", "4"}, map[string]string{"ray.py": ray})
		},
	} {
		t.Run(name, func(t *testing.T) {
			enterFiles(t, here)
			if err := os.WriteFile("grid.yaml", read("grid.yaml"), 0o600); err != nil {
				t.Fatal(err)
			}
			printed(t, []string{"sweep", "grid.yaml", "--out=one.csv"})
			do(t)
			one, err := os.ReadFile("one.csv")
			all, errAll := os.ReadFile("all.csv")
			if err != nil || errAll != nil || !bytes.Equal(one, all) {
				t.Errorf("%v, %v: the table of the shards is\n%s\nwant\n%s", err, errAll, all, one)
			}
		})
	}
}
