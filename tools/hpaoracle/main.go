// Command hpaoracle is Kubernetes' own horizontal controller as an autoscaler that replay asks line
// by line (docs/autoscaling.md, A program). The controller is unmodified; it runs on a virtual
// clock against clientsets in memory.
//
//	GOWORK=off go build -C tools/hpaoracle -o ../../bin/hpaoracle .
//	replay trace TRACE --autoscale FILE     with command: bin/hpaoracle -manifest hpa.yaml
//
// Package cluster has the cluster that the controller sees.
package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr"
	autoscaling "k8s.io/api/autoscaling/v2"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"

	"github.com/replay-llm/replay/tools/hpaoracle/cluster"
)

func main() {
	testing.Init() // package synctest requires a test
	manifest := flag.String("manifest", "", "file of the HorizontalPodAutoscaler")
	verbose := flag.Bool("logs", false, "print the controller's log to standard error")
	var flags cluster.Flags
	flag.Float64Var(&flags.Tolerance, "tolerance", 0.1, "--horizontal-pod-autoscaler-tolerance of kube-controller-manager")
	flag.DurationVar(&flags.Window, "downscale-stabilization", 5*time.Minute, "--horizontal-pod-autoscaler-downscale-stabilization")
	flag.Parse()
	if err := setGlobals(*verbose); err != nil {
		endProcess(err)
	}
	hpa, err := readManifest(*manifest)
	if err != nil {
		endProcess(err)
	}
	inBubble(func(ctx context.Context) { endProcess(answerLines(ctx, hpa, flags, os.Stdin, os.Stdout)) })
}

// endProcess ends the process: goroutines of event broadcasters have no end, which a bubble would wait for.
func endProcess(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "hpaoracle:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// setGlobals sets what the controller's process has globally.
func setGlobals(verbose bool) error {
	// The second handler limits the rate of errors by sleeping, from an instant outside of the
	// bubble: for years of its clock.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	if !verbose {
		klog.SetLogger(logr.Discard())
	}
	// Its store compares resource versions, which clientsets in memory do not count.
	return utilfeature.DefaultMutableFeatureGate.Set("StaleControllerConsistencyHPA=false")
}

func readManifest(path string) (*autoscaling.HorizontalPodAutoscaler, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	hpa, err := cluster.ReadManifest(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return hpa, nil
}

// inBubble runs f, which must end the process, on a virtual clock.
func inBubble(f func(context.Context)) {
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: "oracle", F: func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) { f(t.Context()) })
	}}}, nil, nil)
}

// answerLines answers line by line, up to the end of the input.
func answerLines(ctx context.Context, hpa *autoscaling.HorizontalPodAutoscaler, flags cluster.Flags, in io.Reader, out io.Writer) error {
	lines, answers := json.NewDecoder(bufio.NewReader(in)), json.NewEncoder(out)
	var g cluster.Greeting
	if err := lines.Decode(&g); err != nil {
		return err
	}
	if g.Protocol != "replay-scaler" || g.Version != 1 {
		return fmt.Errorf("protocol %s %d, must be replay-scaler 1", g.Protocol, g.Version)
	}
	if err := answers.Encode(map[string]int{"version": 1}); err != nil {
		return err
	}
	c := cluster.New(hpa, flags, time.Duration(g.Sync*float64(time.Millisecond)))
	for {
		var t cluster.Tick
		if err := lines.Decode(&t); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		n, err := c.Step(ctx, &t)
		if err != nil {
			return err
		}
		why := c.Why(ctx)
		if err := answers.Encode(map[string]any{"workers": n, "why": why[:min(len(why), 200)]}); err != nil {
			return err
		}
	}
}
