// Command hpaoracle is Kubernetes' own horizontal controller as an autoscaler that replay asks line
// by line (docs/autoscaling.md, A program). The controller is unmodified; it runs on a virtual
// clock against clientsets in memory.
//
//	GOWORK=off go build -C tools/hpaoracle -o ../../bin/hpaoracle .
//	replay trace TRACE --autoscale FILE     with command: bin/hpaoracle -manifest hpa.yaml
//
// Package cluster has the cluster that the controller sees; keda is the same with KEDA.
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
