package main

import (
	"errors"
	"fmt"
	"slices"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// manifests holds the objects that kubectl apply -k applies.
type manifests struct {
	deployments map[string]*apps.Deployment // by the label app of their pods
	services    []*core.Service
	policies    []*networking.NetworkPolicy
	configs     []string
}

// checkManifests returns the errors of kustomize and Kubernetes, with unknown keys and broken references.
func checkManifests(dir string) error {
	made, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return fmt.Errorf("%s: %w", dir, err)
	}
	m := manifests{deployments: map[string]*apps.Deployment{}}
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	var all []error
	for _, r := range made.Resources() {
		text, err := r.AsYAML()
		if err != nil {
			return err
		}
		object, _, err := strict.Decode(text, nil, nil)
		if err == nil {
			err = m.add(object)
		}
		if err != nil {
			all = append(all, fmt.Errorf("%s %s: %w", r.GetKind(), r.GetName(), err))
		}
	}
	for name, d := range m.deployments {
		all = append(all, m.checkPods(name, d))
	}
	for _, s := range m.services {
		for _, p := range s.Spec.Ports {
			all = append(all, m.checkPort("Service "+s.Name, s.Spec.Selector["app"], p.TargetPort))
		}
	}
	for _, p := range m.policies {
		all = append(all, m.checkPolicy(p))
	}
	return errors.Join(all...)
}

// add adds an object.
func (m *manifests) add(object runtime.Object) error {
	switch o := object.(type) {
	case *apps.Deployment:
		m.deployments[o.Spec.Template.Labels["app"]] = o
		if o.Spec.Selector == nil || o.Spec.Selector.MatchLabels["app"] != o.Spec.Template.Labels["app"] {
			return errors.New("does not select its own pods")
		}
	case *core.Service:
		m.services = append(m.services, o)
	case *networking.NetworkPolicy:
		m.policies = append(m.policies, o)
	case *core.ConfigMap:
		m.configs = append(m.configs, o.Name)
	default:
		return fmt.Errorf("%T: must be a Deployment, Service, NetworkPolicy or ConfigMap", object)
	}
	return nil
}

// checkPods returns the missing safety settings of pods, such as probes and resource limits.
func (m *manifests) checkPods(name string, d *apps.Deployment) error {
	var all []error
	complain := func(format string, args ...any) {
		all = append(all, fmt.Errorf("Deployment "+name+": "+format, args...))
	}
	pod := d.Spec.Template.Spec
	if !slices.ContainsFunc(m.policies, func(p *networking.NetworkPolicy) bool { return p.Spec.PodSelector.MatchLabels["app"] == name }) {
		complain("no NetworkPolicy lists the peers that may connect")
	}
	volumes := map[string]bool{}
	for _, v := range pod.Volumes {
		volumes[v.Name] = true
		if v.ConfigMap != nil && !slices.Contains(m.configs, v.ConfigMap.Name) {
			complain("no ConfigMap %s", v.ConfigMap.Name)
		}
	}
	if s := pod.SecurityContext; s == nil || s.RunAsNonRoot == nil || !*s.RunAsNonRoot || pod.AutomountServiceAccountToken == nil || *pod.AutomountServiceAccountToken {
		complain("must have runAsNonRoot, and automountServiceAccountToken: false")
	}
	for _, c := range pod.Containers {
		all = append(all, checkImage("Deployment "+name, c.Image))
		if c.Resources.Requests.Cpu().IsZero() || c.Resources.Requests.Memory().IsZero() || c.Resources.Limits.Memory().IsZero() {
			complain("%s: must be requests of cpu and memory, and a limit of memory", c.Name)
		}
		if s := c.SecurityContext; s == nil || s.ReadOnlyRootFilesystem == nil || s.AllowPrivilegeEscalation == nil || *s.AllowPrivilegeEscalation || s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL") {
			complain("%s: must be a root that is only read, no more privileges and no capabilities", c.Name)
		}
		for _, p := range []*core.Probe{c.LivenessProbe, c.ReadinessProbe} {
			if p == nil || p.HTTPGet == nil {
				complain("%s: must be probes of liveness and readiness over HTTP", c.Name)
				continue
			}
			all = append(all, m.checkPort("probe of "+c.Name, name, p.HTTPGet.Port))
		}
		for _, v := range c.VolumeMounts {
			if !volumes[v.Name] {
				complain("%s: no volume %s", c.Name, v.Name)
			}
		}
	}
	return errors.Join(all...)
}

// checkPort returns an error if no container of the app has the port.
func (m *manifests) checkPort(place, app string, port intstr.IntOrString) error {
	d := m.deployments[app]
	if d == nil {
		return fmt.Errorf("%s: no pods with the label app: %s", place, app)
	}
	for _, c := range d.Spec.Template.Spec.Containers {
		if slices.ContainsFunc(c.Ports, func(p core.ContainerPort) bool { return p.Name == port.StrVal && port.Type == intstr.String }) {
			return nil
		}
	}
	return fmt.Errorf("%s: no port %q in the pods of %s", place, port.String(), app)
}

// checkPolicy returns an error if a policy admits a pod that does not exist, or has a port that the pod does not
// have.
func (m *manifests) checkPolicy(p *networking.NetworkPolicy) error {
	var all []error
	for _, rule := range p.Spec.Ingress {
		for _, port := range rule.Ports {
			all = append(all, m.checkPort("NetworkPolicy "+p.Name, p.Spec.PodSelector.MatchLabels["app"], *port.Port))
		}
		for _, from := range rule.From {
			if from.PodSelector == nil || m.deployments[from.PodSelector.MatchLabels["app"]] == nil {
				all = append(all, fmt.Errorf("NetworkPolicy %s: admits %v, which matches no pod", p.Name, from.PodSelector))
			}
		}
	}
	return errors.Join(all...)
}
