// Command hpaoracle runs Kubernetes' unmodified horizontal controller on a virtual clock, with clientsets in memory.
// replay asks it line by line for the number of workers (docs/autoscaling.md, A program).
//
//	GOWORK=off go build -C tools/hpaoracle -o ../../bin/hpaoracle .
//	replay trace TRACE --autoscale FILE     with command: bin/hpaoracle -manifest hpa.yaml
//
// Package cluster contains the simulated cluster. Command keda does the same with KEDA.
package main

import (
	"time"

	autoscaling "k8s.io/api/autoscaling/v2"
	"sigs.k8s.io/yaml"

	"github.com/replay-llm/replay/tools/hpaoracle/cluster"
)

func main() {
	cluster.Run("hpaoracle", func(manifest []byte, flags cluster.Flags, sync time.Duration) (cluster.Stepper, error) {
		hpa := new(autoscaling.HorizontalPodAutoscaler)
		if err := yaml.UnmarshalStrict(manifest, hpa); err != nil {
			return nil, err
		}
		if err := cluster.Complete(hpa); err != nil {
			return nil, err
		}
		return cluster.New(hpa, flags, sync), nil
	})
}
