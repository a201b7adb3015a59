// Command keda runs KEDA's executor and fallback with Kubernetes' horizontal controller, all unmodified. replay asks
// it line by line for the number of workers (docs/autoscaling.md, A program).
//
//	GOWORK=off go build -C tools/hpaoracle -o ../../bin/kedaoracle ./keda
//	replay trace TRACE --autoscale FILE     with command: bin/kedaoracle -manifest scaledobject.yaml
//
// The name of a trigger is the name of the metric in the HPA. The metadata of a trigger are metric (a fact of a
// tick), threshold and activationThreshold. Read loop.go.
package main

import (
	"context"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/kedacore/keda/v2/apis/keda/v1alpha1"

	"github.com/replay-llm/replay/tools/hpaoracle/cluster"
)

func main() {
	cluster.Run("kedaoracle", func(manifest []byte, flags cluster.Flags, sync time.Duration) (cluster.Stepper, error) {
		object := new(v1alpha1.ScaledObject)
		if err := yaml.UnmarshalStrict(manifest, object); err != nil {
			return nil, err
		}
		for _, check := range []func(*v1alpha1.ScaledObject) error{v1alpha1.CheckReplicaCountBoundsAreValid, v1alpha1.CheckFallbackValid} {
			if err := check(object); err != nil {
				return nil, cluster.Refuse(err)
			}
		}
		object.Namespace = cluster.Namespace
		return newLoop(context.Background(), object, flags, sync)
	})
}
