package clusterrun

import (
	"fmt"
	"os"
	"strings"

	"github.com/replay-llm/replay/cmd/internal/options"

	remotes "github.com/replay-llm/replay/live/cluster"
)

// spawned is workers of one kind.
type spawned struct {
	mode  string
	count int
	from  string            // the flag of their engine arguments
	own   []options.Setting // flags for them alone
}

// spawnWorkers starts the workers.
func (x *processRun) spawnWorkers(o *remotes.Options) error {
	program, err := os.Executable()
	if err != nil {
		return err
	}
	x.fleet = remotes.NewFleet(x.s.Err)
	o.Fleet = x.fleet
	kinds := []spawned{{"agg", o.Count, "engine-args", nil}}
	if o.Prefill != nil {
		kinds = []spawned{
			{"prefill", o.PrefillCount, "prefill-engine-args", x.o.Engine.Own[0]},
			{"decode", o.Count, "decode-engine-args", x.o.Engine.Own[1]},
		}
	}
	for _, p := range kinds {
		args := append(x.workerArgs(o.Workers.Namespace, p.mode), x.engineArgs(p.from)...)
		for _, s := range options.GivenOf(p.own) {
			_, name, _ := strings.Cut(s.Name, "-")
			args = append(args, flagText(name, s.String()))
		}
		for range p.count {
			if err := x.fleet.Start(program, args...); err != nil {
				return fmt.Errorf("worker: %w", err)
			}
		}
	}
	return nil
}

func flagText(name, value string) string { return "--" + name + "=" + value }

// workerArgs say what a worker is, and how it takes part in the cluster.
func (x *processRun) workerArgs(namespace, mode string) []string {
	args := []string{
		"worker", "--until-eof", "--grace=0s", flagText("namespace", namespace), flagText("disaggregation-mode", mode),
		flagText("context-length", fmt.Sprint(1<<30)),
		flagText("etcd", strings.Join(x.config.Etcd.Endpoints, ",")), flagText("nats", x.config.NATS.URL),
	}
	if x.servers != nil { // they all run on this machine
		args = append(args, "--response-host=127.0.0.1")
	}
	if x.o.Changed("precise") {
		args = append(args, flagText("precise", x.o.Live.Precise.Value))
	}
	for _, name := range x.o.Processes.RuntimeNames {
		if x.o.Changed(name) && name != "etcd" && name != "nats" && name != "response-port" {
			args = append(args, flagText(name, x.o.Set.Lookup(name).Value.String()))
		}
	}
	return args
}

// engineArgs are the flags of a pool's engines; from is the flag of its engine
// arguments.
func (x *processRun) engineArgs(from string) []string {
	if !x.o.Changed(from) {
		from = "engine-args"
	}
	var args []string
	if x.o.Changed(from) {
		args = append(args, flagText("engine-args", x.o.Set.Lookup(from).Value.String()))
	}
	for _, s := range options.GivenOf(x.o.Engine.Settings) {
		args = append(args, flagText(s.Name, s.String()))
	}
	return args
}
