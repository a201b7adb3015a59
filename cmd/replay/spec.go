package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/replay-llm/replay/loadgen"
	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/replay/offline"
)

// spec turns flags into what is to be run; file is "" when no trace is named.
func (o *options) spec(file string, mode loadgen.Mode) (replay.Spec, error) {
	spec := replay.Spec{Mode: mode}
	if err := o.config.apply(o); err != nil {
		return spec, err
	}
	spec.Seed, spec.Compat = o.seed, o.compat != ""
	if o.compat != "" && o.compat != compatRelease {
		return spec, o.refuse("compat", compatRelease)
	}
	if !o.reference {
		if err := o.checkOurs(file, mode); err != nil {
			return spec, err
		}
	}
	if o.reference && o.changed("max-in-flight") {
		spec.Mode = loadgen.Concurrency
	}
	if err := o.fillInput(&spec, file); err != nil {
		return spec, err
	}
	if o.reference {
		if err := o.checkUnsigned(); err != nil {
			return spec, err
		}
	}
	if err := o.fillCluster(&spec); err != nil {
		return spec, err
	}
	if err := o.fillLimits(&spec); err != nil {
		return spec, err
	}
	if err := o.checkPlanner(); err != nil {
		return spec, err
	}
	return spec, o.checkLive()
}

// checkOurs refuses what the reference would overlook.
func (o *options) checkOurs(file string, mode loadgen.Mode) error {
	if err := o.checkSource(file); err != nil {
		return err
	}
	if err := o.checkInput(file, mode); err != nil {
		return err
	}
	return o.checkCluster()
}

// replay runs spec and writes its report.
func (o *options) replay(ctx context.Context, s streams, spec replay.Spec) error {
	if s.again != "" {
		o.recordOnly(s.again)
	}
	for _, warning := range spec.Warnings() {
		fmt.Fprintf(s.err, "replay: warning: %s\n", warning)
	}
	p := newProgress(s.err)
	total := 0
	streams := replay.Streams{Stdin: s.in, Progress: p.step(), Opened: func(w *loadgen.Workload) { total = len(w.Turns) }}
	streams.Warn = func(text string) { fmt.Fprintf(s.err, "replay: warning: %s\n", text) }
	rec, err := o.record(&spec, &streams)
	if err != nil {
		return err
	}
	trust, err := newTrust(&spec, s.err)
	if err != nil {
		return err
	}
	var real liveRun
	result, err := o.draw(rec.observers(), func(watching observers) (*offline.Result, error) {
		return trust.run(streams, watching, func(streams replay.Streams) (*offline.Result, error) {
			if o.isCluster() {
				return real.runProcesses(ctx, o, s, &spec, streams)
			}
			if o.isLive() {
				return real.run(ctx, o, &spec, streams)
			}
			return spec.Run(ctx, streams)
		})
	})
	p.clear()
	trust.warn(s.err)
	if err != nil && o.isLive() {
		return err
	}
	if err != nil {
		return explain(err)
	}
	listRejected(s.err, result.Rejected)
	if err := rec.judge(result); err != nil {
		return err
	}
	if real.ended != nil {
		ctx = context.WithoutCancel(ctx) // what there is gets written
	}
	if err := rec.write(ctx, s, result); err != nil {
		return err
	}
	if err := o.write(s, result, total); err != nil {
		return err
	}
	if err := o.close(s, rec); err != nil {
		return err
	}
	return real.end(total)
}

// trace is the one file named in args, or "".
func trace(args []string) (string, error) {
	switch {
	case len(args) == 0:
		return "", nil
	case len(args) > 1:
		return "", usagef("%s: want at most one trace file", strings.Join(args, " "))
	case args[0] == "":
		return "", usagef(`"": want the name of a trace file`)
	}
	return args[0], nil
}
