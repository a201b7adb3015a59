package cluster

import (
	"fmt"

	autoscaling "k8s.io/api/autoscaling/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	internal "k8s.io/kubernetes/pkg/apis/autoscaling"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install" // the defaults and conversions of the API server
	"k8s.io/kubernetes/pkg/apis/autoscaling/validation"
	"sigs.k8s.io/yaml"
)

// ReadManifest returns a HorizontalPodAutoscaler as the API server stores it: with defaults, and
// only if it is valid.
func ReadManifest(text []byte) (*autoscaling.HorizontalPodAutoscaler, error) {
	hpa := new(autoscaling.HorizontalPodAutoscaler)
	if err := yaml.UnmarshalStrict(text, hpa); err != nil {
		return nil, err
	}
	hpa.Namespace = namespace
	hpa.Spec.ScaleTargetRef = autoscaling.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: app}
	legacyscheme.Scheme.Default(hpa)
	var stored internal.HorizontalPodAutoscaler
	if err := legacyscheme.Scheme.Convert(hpa, &stored, nil); err != nil {
		return nil, err
	}
	o := validation.HorizontalPodAutoscalerSpecValidationOptions{MinReplicasLowerBound: 0}
	if all := validation.ValidateHorizontalPodAutoscaler(&stored, o); len(all) > 0 {
		return nil, fmt.Errorf("the API server refuses it: %v", all.ToAggregate())
	}
	return hpa, nil
}
