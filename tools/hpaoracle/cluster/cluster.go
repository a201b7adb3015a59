package cluster

import (
	"context"
	"fmt"
	"strings"
	"testing/synctest"
	"time"

	scaling "k8s.io/api/autoscaling/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/scale"
	scalefake "k8s.io/client-go/scale/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/kubernetes/pkg/controller/podautoscaler"
)

// Namespace is the namespace of all objects.
const Namespace = "default"

const (
	label = "app"
	app   = "workers"

	ready    = "ready"
	missing  = "missing"
	starting = "starting"
	leaving  = "leaving"
)

// Flags are the flags of kube-controller-manager that affect an autoscaler.
type Flags struct {
	Tolerance float64
	Window    time.Duration // value of --horizontal-pod-autoscaler-downscale-stabilization
}

// Cluster is a deployment of pods, its autoscaler, and the controller that reconciles it.
type Cluster struct {
	hpa     *autoscaling.HorizontalPodAutoscaler
	flags   Flags
	sync    time.Duration
	client  *fake.Clientset
	scales  *scalefake.FakeScaleClient
	metrics tickMetrics
	pods    map[string]bool

	started    time.Time
	first      float64 // time of the first tick, in ms
	ticks      int
	reconciled int
	workers    int32 // replicas in the deployment's specification
}

// New returns a cluster with an autoscaler. Step starts its controller.
func New(hpa *autoscaling.HorizontalPodAutoscaler, flags Flags, sync time.Duration) *Cluster {
	c := &Cluster{
		hpa: hpa, flags: flags, sync: sync, pods: map[string]bool{},
		client: fake.NewSimpleClientset(hpa), scales: &scalefake.FakeScaleClient{},
	}
	c.scales.AddReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) {
		if c.reconciled++; c.reconciled == 1 {
			c.started = time.Now()
		}
		return false, nil, nil
	})
	c.addScale(c.scales)
	return c
}

// addScale adds the get and update of the deployment's scale to a client.
func (c *Cluster) addScale(client *scalefake.FakeScaleClient) {
	client.AddReactor("get", "*", func(clienttesting.Action) (bool, runtime.Object, error) { return true, c.scale(), nil })
	client.AddReactor("update", "*", func(action clienttesting.Action) (bool, runtime.Object, error) {
		c.workers = action.(clienttesting.UpdateAction).GetObject().(*scaling.Scale).Spec.Replicas
		return true, c.scale(), nil
	})
}

// Scales returns a scale client for additional controllers.
func (c *Cluster) Scales() scale.ScalesGetter {
	client := new(scalefake.FakeScaleClient)
	c.addScale(client)
	return client
}

// Workers returns the wanted number of pods of the deployment.
func (c *Cluster) Workers() int32 { return c.workers }

// ServeExternal makes serve the source of external metrics.
func (c *Cluster) ServeExternal(serve func(name string) ([]int64, error)) { c.metrics.external = serve }

// scale returns the deployment's scale.
func (c *Cluster) scale() *scaling.Scale {
	return &scaling.Scale{
		ObjectMeta: metav1.ObjectMeta{Name: app, Namespace: Namespace},
		Spec:       scaling.ScaleSpec{Replicas: c.workers},
		Status:     scaling.ScaleStatus{Replicas: c.workers, Selector: label + "=" + app},
	}
}

// Step moves the clock to a tick and lets the controller reconcile once with the metrics of the tick. Step returns
// the wanted number of pods. Step must run within a bubble of testing/synctest.
func (c *Cluster) Step(ctx context.Context, t *Tick) (int32, error) {
	c.metrics.tick, c.workers = t, t.Workers
	if err := c.setPods(ctx, t); err != nil {
		return 0, err
	}
	if c.ticks == 0 {
		c.first = t.Now
		c.start(ctx)
	}
	after := time.Duration((t.Now - c.first) * float64(time.Millisecond))
	if after != time.Duration(c.ticks)*c.sync {
		return 0, fmt.Errorf("tick at %v ms: must come every %v", t.Now, c.sync)
	}
	c.ticks++
	time.Sleep(time.Until(c.started.Add(after)))
	synctest.Wait()
	if c.reconciled != c.ticks {
		return 0, fmt.Errorf("tick %d at %v ms: the controller has reconciled %d times", c.ticks, t.Now, c.reconciled)
	}
	return c.workers, nil
}

// start starts the controller, and returns after its first reconciliation. The controller runs until the context
// ends.
func (c *Cluster) start(ctx context.Context) {
	mapper := meta.NewDefaultRESTMapper([]schema.GroupVersion{{Group: "apps", Version: "v1"}})
	mapper.Add(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"}, meta.RESTScopeNamespace)
	shared := informers.NewSharedInformerFactory(c.client, 12*time.Hour)
	h := podautoscaler.NewHorizontalController(ctx, c.client.CoreV1(), c.scales, c.client.AutoscalingV2(), mapper, &c.metrics,
		shared.Autoscaling().V2().HorizontalPodAutoscalers(), shared.Core().V1().Pods(), c.sync, c.flags.Window, c.flags.Tolerance, 5*time.Minute, 30*time.Second)
	shared.Start(ctx.Done())
	shared.WaitForCacheSync(ctx.Done())
	go h.Run(ctx, 1)
	for range 1000 {
		if synctest.Wait(); c.reconciled > 0 {
			return
		}
		time.Sleep(10 * time.Millisecond)
	}
}

// Why returns the conditions of the autoscaler in one line.
func (c *Cluster) Why(ctx context.Context) string {
	hpa, err := c.client.AutoscalingV2().HorizontalPodAutoscalers(Namespace).Get(ctx, c.hpa.Name, metav1.GetOptions{})
	if err != nil {
		return err.Error()
	}
	var parts []string
	for _, condition := range hpa.Status.Conditions {
		parts = append(parts, fmt.Sprintf("%s %s %s", condition.Type, condition.Status, condition.Reason))
	}
	return strings.Join(parts, ", ")
}

// podName returns the name of pod i in a state.
func podName(state string, i int) string { return fmt.Sprintf("%s-%d", state, i) }

// setPods creates, updates and deletes pods until they match a tick.
func (c *Cluster) setPods(ctx context.Context, t *Tick) error {
	want := map[string]string{}
	list := func(state string, n int) {
		for i := range n {
			want[podName(state, i)] = state
		}
	}
	list(ready, countOf(t.Ready))
	list(missing, countOf(t.Missing))
	list(starting, int(t.Workers)-countOf(t.Ready)-countOf(t.Missing))
	list(leaving, t.Leaving)
	pods := c.client.CoreV1().Pods(Namespace)
	for name := range c.pods {
		if want[name] != "" {
			continue
		}
		if err := pods.Delete(ctx, name, metav1.DeleteOptions{}); err != nil {
			return err
		}
		delete(c.pods, name)
	}
	for name, state := range want {
		if c.pods[name] {
			continue
		}
		if _, err := pods.Create(ctx, newPod(name, state), metav1.CreateOptions{}); err != nil {
			return err
		}
		c.pods[name] = true
	}
	return nil
}

// newPod returns a pod in a state.
func newPod(name, state string) *core.Pod {
	pod := &core.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: Namespace, Labels: map[string]string{label: app}},
		Status:     core.PodStatus{Phase: core.PodRunning},
	}
	switch state {
	case starting:
		pod.Status.Phase = core.PodPending
	case leaving:
		now := metav1.Now()
		pod.DeletionTimestamp = &now
	case ready:
		pod.Status.Conditions = []core.PodCondition{{Type: core.PodReady, Status: core.ConditionTrue}}
	}
	return pod
}
