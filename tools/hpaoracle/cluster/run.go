package cluster

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
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/klog/v2"
)

// Stepper returns the wanted number of pods at each tick.
type Stepper interface {
	Step(ctx context.Context, t *Tick) (int32, error)
	// Why returns the reason for the latest result of Step, in one line.
	Why(ctx context.Context) string
}

// Opener makes a Stepper from a manifest. sync is the time between two ticks.
type Opener func(manifest []byte, flags Flags, sync time.Duration) (Stepper, error)

// Run is the main function of a program that answers on its standard streams. Run does not return.
func Run(name string, open Opener) {
	testing.Init() // package synctest requires a test
	manifest := flag.String("manifest", "", "file of the autoscaler")
	verbose := flag.Bool("logs", false, "print the controllers' logs to standard error")
	var flags Flags
	flag.Float64Var(&flags.Tolerance, "tolerance", 0.1, "--horizontal-pod-autoscaler-tolerance of kube-controller-manager")
	flag.DurationVar(&flags.Window, "downscale-stabilization", 5*time.Minute, "--horizontal-pod-autoscaler-downscale-stabilization")
	flag.Parse()
	err := setGlobals(*verbose)
	if err != nil {
		endProcess(name, err)
	}
	text, err := os.ReadFile(*manifest)
	if err != nil {
		endProcess(name, err)
	}
	all := func(string, string) (bool, error) { return true, nil }
	testing.Main(all, []testing.InternalTest{{Name: name, F: func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			s := session{lines: json.NewDecoder(bufio.NewReader(os.Stdin)), answers: json.NewEncoder(os.Stdout)}
			endProcess(name, s.answerAll(t.Context(), func(sync time.Duration) (Stepper, error) { return open(text, flags, sync) }))
		})
	}}}, nil, nil)
}

// endProcess ends the process. A bubble would wait for the goroutines of event broadcasters, which never end.
func endProcess(name string, err error) {
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: %v\n", name, err)
		os.Exit(1)
	}
	os.Exit(0)
}

// setGlobals sets global variables of the controllers' processes.
func setGlobals(verbose bool) error {
	// The second handler limits the rate of errors by sleeping until a time outside of the bubble. The sleep would
	// take years of the bubble's clock.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	if !verbose {
		klog.SetLogger(logr.Discard())
	}
	// The feature compares resource versions, which clientsets in memory do not maintain.
	return utilfeature.DefaultMutableFeatureGate.Set("StaleControllerConsistencyHPA=false")
}

// session is a conversation with replay.
type session struct {
	lines   *json.Decoder
	answers *json.Encoder
}

// answerAll answers each line until the end of the input.
func (s *session) answerAll(ctx context.Context, open func(time.Duration) (Stepper, error)) error {
	var g Greeting
	if err := s.lines.Decode(&g); err != nil {
		return err
	}
	if g.Protocol != "replay-scaler" || g.Version != 1 {
		return fmt.Errorf("protocol %s %d, must be replay-scaler 1", g.Protocol, g.Version)
	}
	// API servers store times in whole seconds, rounded down. The offset keeps stored times before the current time.
	time.Sleep(500 * time.Millisecond)
	c, err := open(time.Duration(g.Sync * float64(time.Millisecond)))
	if err != nil {
		return err
	}
	if err := s.answers.Encode(map[string]int{"version": 1}); err != nil {
		return err
	}
	for {
		var t Tick
		if err := s.lines.Decode(&t); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		n, err := c.Step(ctx, &t)
		if err != nil {
			return err
		}
		why := c.Why(ctx)
		if err := s.answers.Encode(map[string]any{"workers": n, "why": why[:min(len(why), 200)]}); err != nil {
			return err
		}
	}
}
