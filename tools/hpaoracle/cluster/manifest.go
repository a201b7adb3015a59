package cluster

import (
	"fmt"

	autoscaling "k8s.io/api/autoscaling/v2"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	internal "k8s.io/kubernetes/pkg/apis/autoscaling"
	_ "k8s.io/kubernetes/pkg/apis/autoscaling/install" // defaults and conversions of the API server
	"k8s.io/kubernetes/pkg/apis/autoscaling/validation"
)

// Complete sets the namespace, the scale target and the API server's defaults of an autoscaler. Complete returns an
// error if the autoscaler is not valid.
func Complete(hpa *autoscaling.HorizontalPodAutoscaler) error {
	hpa.Namespace = Namespace
	hpa.Spec.ScaleTargetRef = autoscaling.CrossVersionObjectReference{APIVersion: "apps/v1", Kind: "Deployment", Name: app}
	legacyscheme.Scheme.Default(hpa)
	var stored internal.HorizontalPodAutoscaler
	if err := legacyscheme.Scheme.Convert(hpa, &stored, nil); err != nil {
		return err
	}
	o := validation.HorizontalPodAutoscalerSpecValidationOptions{MinReplicasLowerBound: 0}
	if all := validation.ValidateHorizontalPodAutoscaler(&stored, o); len(all) > 0 {
		return Refuse(all.ToAggregate())
	}
	return nil
}

// Refuse returns the error of a manifest that is not valid. tools/parityscaler recognizes its text.
func Refuse(err error) error { return fmt.Errorf("the API server refuses it: %w", err) }
