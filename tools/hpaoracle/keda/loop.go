package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/tools/events"
	"k8s.io/metrics/pkg/apis/external_metrics"
	runtimeclient "sigs.k8s.io/controller-runtime/pkg/client"
	runtimefake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/kedacore/keda/v2/apis/keda/v1alpha1"
	"github.com/kedacore/keda/v2/pkg/fallback"
	"github.com/kedacore/keda/v2/pkg/scaling/executor"

	"github.com/replay-llm/replay/tools/hpaoracle/cluster"
)

// loop is KEDA's loop over one ScaledObject. The executor and the fallback are unmodified.
type loop struct {
	ctx      context.Context // context for queries of the HPA
	object   *v1alpha1.ScaledObject
	hpa      *autoscaling.HorizontalPodAutoscaler
	cluster  *cluster.Cluster
	client   runtimeclient.Client
	executor executor.ScaleExecutor
	tick     *cluster.Tick
	next     float64 // time of the next poll, in ms
	began    bool
}

// newLoop returns the loop of an object. The HPA of the loop acts on a cluster.
func newLoop(ctx context.Context, object *v1alpha1.ScaledObject, flags cluster.Flags, sync time.Duration) (*loop, error) {
	l := &loop{ctx: ctx, object: object}
	hpa, err := l.newHPA()
	if err != nil {
		return nil, err
	}
	l.hpa, l.cluster = hpa, cluster.New(hpa, flags, sync)
	l.cluster.ServeExternal(l.serve)
	types := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{scheme.AddToScheme, v1alpha1.AddToScheme} {
		if err := add(types); err != nil {
			return nil, err
		}
	}
	object.CreationTimestamp = metav1.Now()
	object.Status.ScaleTargetGVKR = &v1alpha1.GroupVersionKindResource{Group: "apps", Version: "v1", Kind: "Deployment", Resource: "deployments"}
	object.Status.ScaleTargetKind = "apps/v1.Deployment"
	workers := &apps.Deployment{ObjectMeta: metav1.ObjectMeta{Name: object.Spec.ScaleTargetRef.Name, Namespace: object.Namespace}}
	l.client = runtimefake.NewClientBuilder().WithScheme(types).WithObjects(object, workers).WithStatusSubresource(object).Build()
	l.executor = executor.NewScaleExecutor(l.client, l.cluster.Scales(), types, time.Second, events.NewFakeRecorder(1000))
	return l, nil
}

// newHPA returns the autoscaler that KEDA's operator makes from the object.
func (l *loop) newHPA() (*autoscaling.HorizontalPodAutoscaler, error) {
	o := l.object
	hpa := &autoscaling.HorizontalPodAutoscaler{ObjectMeta: metav1.ObjectMeta{Name: "keda-hpa-" + o.Name}}
	hpa.Spec.MinReplicas, hpa.Spec.MaxReplicas = o.GetHPAMinReplicas(), o.GetHPAMaxReplicas()
	if o.Spec.Advanced != nil && o.Spec.Advanced.HorizontalPodAutoscalerConfig != nil {
		hpa.Spec.Behavior = o.Spec.Advanced.HorizontalPodAutoscalerConfig.Behavior
	}
	for _, t := range o.Spec.Triggers {
		spec, err := newMetricSpec(&t)
		if err != nil {
			return nil, err
		}
		hpa.Spec.Metrics = append(hpa.Spec.Metrics, spec)
	}
	return hpa, cluster.Complete(hpa)
}

// newMetricSpec returns the metric of a trigger. KEDA's scalers write numbers with three decimals.
func newMetricSpec(t *v1alpha1.ScaleTriggers) (spec autoscaling.MetricSpec, err error) {
	threshold, err := readNumber(t, "threshold")
	if err != nil {
		return spec, err
	}
	target := resource.MustParse(fmt.Sprintf("%.3f", threshold))
	spec.Type = autoscaling.ExternalMetricSourceType
	spec.External = &autoscaling.ExternalMetricSource{
		Metric: autoscaling.MetricIdentifier{Name: t.Name},
		Target: autoscaling.MetricTarget{Type: autoscaling.AverageValueMetricType, AverageValue: &target},
	}
	return spec, nil
}

// readNumber returns a number of a trigger's metadata; 0 if the key is missing.
func readNumber(t *v1alpha1.ScaleTriggers, key string) (x float64, err error) {
	if text := t.Metadata[key]; text != "" {
		_, err = fmt.Sscan(text, &x)
	}
	return x, err
}

// serve answers a query of the HPA for a metric.
func (l *loop) serve(name string) ([]int64, error) {
	for i := range l.object.Spec.Triggers {
		if t := &l.object.Spec.Triggers[i]; t.Name == name {
			values, _, err := l.observe(l.ctx, t)
			return values, err
		}
	}
	return nil, fmt.Errorf("no trigger %s", name)
}

// observe reads a trigger with KEDA's fallback, and reports whether the trigger is active.
func (l *loop) observe(ctx context.Context, t *v1alpha1.ScaleTriggers) (values []int64, active bool, err error) {
	object := new(v1alpha1.ScaledObject)
	if err := l.client.Get(ctx, runtimeclient.ObjectKeyFromObject(l.object), object); err != nil {
		return nil, false, err
	}
	spec, err := newMetricSpec(t)
	if err != nil {
		return nil, false, err
	}
	activation, err := readNumber(t, "activationThreshold")
	if err != nil {
		return nil, false, err
	}
	var raw []external_metrics.ExternalMetricValue
	value, failure := l.tick.Sum(t.Metadata["metric"])
	if failure == nil {
		quantity := resource.MustParse(fmt.Sprintf("%.3f", value))
		raw = append(raw, external_metrics.ExternalMetricValue{MetricName: t.Name, Value: quantity, Timestamp: metav1.Now()})
	}
	handler := fallback.ScaledObjectHandler{Ctx: ctx, KubeClient: l.client, ScaleClient: l.cluster.Scales(), UpdateLock: new(sync.RWMutex), ScaledObject: object}
	got, replaced, err := fallback.GetMetricsWithFallback(handler, raw, failure, t.Name, spec)
	for i := range got {
		values = append(values, got[i].Value.MilliValue())
	}
	return values, replaced || failure == nil && value > activation, err
}

// Step moves to a tick. The HPA's controller reconciles, and then the loop polls if a poll is due.
func (l *loop) Step(ctx context.Context, t *cluster.Tick) (int32, error) {
	l.tick = t
	n, err := l.cluster.Step(ctx, t)
	if err != nil {
		return 0, err
	}
	if !l.began {
		l.began, l.next = true, t.Now
	}
	if t.Now < l.next {
		return n, nil
	}
	interval := float64(l.pollingInterval().Milliseconds())
	for l.next <= t.Now {
		l.next += interval
	}
	if err := l.poll(ctx, n); err != nil {
		return 0, err
	}
	return l.cluster.Workers(), nil
}

// Why returns the conditions of the HPA.
func (l *loop) Why(ctx context.Context) string { return l.cluster.Why(ctx) }

func (l *loop) pollingInterval() time.Duration {
	if s := l.object.Spec.PollingInterval; s != nil {
		return time.Duration(*s) * time.Second
	}
	return 30 * time.Second
}

// poll reads the triggers, runs the executor, and records when a trigger was last active.
func (l *loop) poll(ctx context.Context, workers int32) error {
	key := runtimeclient.ObjectKeyFromObject(l.object)
	deployment := new(apps.Deployment)
	if err := l.client.Get(ctx, runtimeclient.ObjectKey{Namespace: key.Namespace, Name: l.object.Spec.ScaleTargetRef.Name}, deployment); err != nil {
		return err
	}
	deployment.Spec.Replicas = &workers
	if err := l.client.Update(ctx, deployment); err != nil {
		return err
	}
	var o executor.ScaleExecutorOptions
	failed := false
	for i := range l.object.Spec.Triggers {
		_, active, err := l.observe(ctx, &l.object.Spec.Triggers[i])
		switch {
		case err != nil:
			failed = true
		case active:
			o.ActiveTriggers = append(o.ActiveTriggers, l.object.Spec.Triggers[i].Name)
		}
	}
	object := new(v1alpha1.ScaledObject)
	if err := l.client.Get(ctx, key, object); err != nil {
		return err
	}
	result := l.executor.RequestScale(ctx, object, len(o.ActiveTriggers) > 0, failed, o)
	if result.Error != nil || result.LastActiveTime == nil {
		return result.Error
	}
	if err := l.client.Get(ctx, key, object); err != nil {
		return err
	}
	before := object.DeepCopy()
	object.Status.LastActiveTime = result.LastActiveTime
	return l.client.Status().Patch(ctx, object, runtimeclient.MergeFrom(before))
}
