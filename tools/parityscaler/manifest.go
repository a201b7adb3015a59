package main

import (
	"fmt"
	"reflect"
	"strconv"

	"github.com/replay-llm/replay/replay/autoscale"
	"github.com/replay-llm/replay/sim"
)

// object is an object of a manifest.
type object = map[string]any

// newManifest returns settings as a manifest for Kubernetes. Default values are omitted.
func newManifest(c *autoscale.Config) object {
	if c.Kind == autoscale.KEDA {
		return newScaledObject(c)
	}
	metrics := []object{}
	for _, t := range c.Targets {
		kind, key := "Pods", "pods"
		if isOfPool(t.Metric) {
			kind, key = "External", "external"
		}
		metrics = append(metrics, object{"type": kind, key: object{
			"metric": object{"name": t.Metric},
			"target": object{"type": "AverageValue", "averageValue": formatQuantity(t.Value)},
		}})
	}
	spec := object{
		"scaleTargetRef": object{"apiVersion": "apps/v1", "kind": "Deployment", "name": "workers"},
		"minReplicas":    c.Min, "maxReplicas": c.Max, "metrics": metrics,
	}
	if behavior := newBehavior(c); len(behavior) > 0 {
		spec["behavior"] = behavior
	}
	return object{"apiVersion": "autoscaling/v2", "kind": "HorizontalPodAutoscaler", "metadata": object{"name": "workers"}, "spec": spec}
}

// newScaledObject returns settings as a manifest for KEDA.
func newScaledObject(c *autoscale.Config) object {
	triggers := []object{}
	for i, t := range c.Targets {
		data := object{"metric": t.Metric, "threshold": formatQuantity(t.Value)}
		if t.Activation > 0 {
			data["activationThreshold"] = formatQuantity(t.Activation)
		}
		triggers = append(triggers, object{"type": "external", "name": fmt.Sprintf("s%d-%s", i, t.Metric), "metadata": data})
	}
	spec := object{
		"scaleTargetRef":  object{"name": "workers"},
		"minReplicaCount": c.Min, "maxReplicaCount": c.Max, "triggers": triggers,
		"pollingInterval": toSeconds(c.Polling), "cooldownPeriod": toSeconds(c.Cooldown),
	}
	if c.Idle != nil {
		spec["idleReplicaCount"] = *c.Idle
	}
	if f := c.Fallback; f != nil {
		spec["fallback"] = object{"failureThreshold": f.Failures, "replicas": f.Workers}
	}
	if behavior := newBehavior(c); len(behavior) > 0 {
		spec["advanced"] = object{"horizontalPodAutoscalerConfig": object{"behavior": behavior}}
	}
	return object{"apiVersion": "keda.sh/v1alpha1", "kind": "ScaledObject", "metadata": object{"name": "workers"}, "spec": spec}
}

// isOfPool reports whether a metric is a number for the whole pool. A metric for the whole pool is external.
func isOfPool(m autoscale.Metric) bool {
	switch m {
	case autoscale.Waiting, autoscale.Running, autoscale.InFlight, autoscale.KVUsage:
		return false
	}
	return true
}

// newBehavior returns the behavior for the directions in the settings.
func newBehavior(c *autoscale.Config) object {
	plain, all := autoscale.Default(c.Kind), object{}
	if c.Up.Set {
		all["scaleUp"] = newRules(&c.Up, &plain.Up)
	}
	if c.Down.Set {
		all["scaleDown"] = newRules(&c.Down, &plain.Down)
	}
	return all
}

func newRules(b, plain *autoscale.Behavior) object {
	rules := object{}
	if b.Window != plain.Window {
		rules["stabilizationWindowSeconds"] = toSeconds(b.Window)
	}
	switch {
	case b.Off:
		rules["selectPolicy"] = "Disabled"
	case b.Least:
		rules["selectPolicy"] = "Min"
	}
	if b.Tolerance != nil {
		rules["tolerance"] = formatQuantity(*b.Tolerance)
	}
	if reflect.DeepEqual(b.Policies, plain.Policies) {
		return rules
	}
	policies := []object{}
	for _, p := range b.Policies {
		policy := object{"type": "Pods", "value": p.Workers, "periodSeconds": toSeconds(p.Period)}
		if p.Percent > 0 {
			policy["type"], policy["value"] = "Percent", int(p.Percent)
		}
		policies = append(policies, policy)
	}
	rules["policies"] = policies
	return rules
}

// formatQuantity returns a number as a Kubernetes quantity.
func formatQuantity(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

func toSeconds(t sim.Time) int { return int(t / second) }
