package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/yaml"
)

// graph is what the operator of Dynamo reads of a DynamoGraphDeployment (deploy/operator/api/v1alpha1 of ai-dynamo/dynamo): the fields that
// graphs have.
type graph struct {
	meta.TypeMeta
	Metadata meta.ObjectMeta `json:"metadata"`
	Spec     struct {
		Services map[string]struct {
			ComponentType    string        `json:"componentType"`
			SubComponentType string        `json:"subComponentType"`
			Replicas         *int32        `json:"replicas"`
			EnvFromSecret    *string       `json:"envFromSecret"`
			Envs             []core.EnvVar `json:"envs"`
			Resources        *struct {
				Limits struct {
					GPU string `json:"gpu"`
				} `json:"limits"`
			} `json:"resources"`
			ExtraPodSpec *struct {
				core.PodSpec
				MainContainer *core.Container `json:"mainContainer"`
			} `json:"extraPodSpec"`
		} `json:"services"`
	} `json:"spec"`
}

// The Dynamo graphs have only keys that Dynamo's operator and Kubernetes know. The volumes of these graphs are
// ConfigMaps in the same file.
func TestEmittedGraphs(t *testing.T) {
	files, err := filepath.Glob("../../replay/deployment/launch/testdata/*.dynamo.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		configs, graphs := map[string]bool{}, 0
		for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
			if bytes.Contains(doc, []byte("kind: ConfigMap")) {
				var o core.ConfigMap
				if err := yaml.UnmarshalStrict(doc, &o); err != nil {
					t.Errorf("%s: %v", path, err)
				}
				configs[o.Name] = true
				continue
			}
			var o graph
			if err := yaml.UnmarshalStrict(doc, &o); err != nil {
				t.Errorf("%s: %v", path, err)
			}
			graphs++
			for name, service := range o.Spec.Services {
				if service.ExtraPodSpec == nil || service.ExtraPodSpec.MainContainer == nil || service.ExtraPodSpec.MainContainer.Image == "" || service.Replicas == nil {
					t.Errorf("%s: %s has no image or no replicas", path, name)
					continue
				}
				for _, v := range service.ExtraPodSpec.Volumes {
					if v.ConfigMap == nil || !configs[v.ConfigMap.Name] {
						t.Errorf("%s: %s: no ConfigMap of the volume %s", path, name, v.Name)
					}
				}
			}
		}
		if graphs != 1 {
			t.Errorf("%s: %d graphs, must be 1", path, graphs)
		}
	}
}

// The manifests of Kubernetes that replay plan --emit writes have only keys that Kubernetes knows. Services select pods
// that exist. Pods name only ConfigMaps that exist, and their URLs lead to a service.
func TestEmittedManifests(t *testing.T) {
	files, err := filepath.Glob("../../replay/deployment/launch/testdata/*.kubernetes.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d files, %v", len(files), err)
	}
	strict := serializer.NewCodecFactory(scheme.Scheme, serializer.EnableStrict).UniversalDeserializer()
	for _, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		pods, selected, configs := map[string]core.PodTemplateSpec{}, map[string]string{}, map[string]bool{}
		for doc := range bytes.SplitSeq(text, []byte("\n---\n")) {
			object, _, err := strict.Decode(doc, nil, nil)
			if err != nil {
				t.Errorf("%s: %v", path, err)
				continue
			}
			switch o := object.(type) {
			case *apps.Deployment:
				pods[o.Spec.Selector.MatchLabels["app"]] = o.Spec.Template
			case *apps.StatefulSet:
				pods[o.Spec.Selector.MatchLabels["app"]] = o.Spec.Template
				selected[o.Spec.ServiceName] = o.Name
			case *core.Service:
				selected[o.Name] = o.Spec.Selector["app"]
			case *core.ConfigMap:
				configs[o.Name] = true
			}
		}
		for service, app := range selected {
			if pods[app].Labels["app"] != app {
				t.Errorf("%s: Service %s selects %s, which no pod is", path, service, app)
			}
		}
		for name, pod := range pods {
			for _, v := range pod.Spec.Volumes {
				if v.ConfigMap != nil && !configs[v.ConfigMap.Name] {
					t.Errorf("%s: %s: no ConfigMap %s", path, name, v.ConfigMap.Name)
				}
			}
			for _, word := range pod.Spec.Containers[0].Args {
				host, isURL := strings.CutPrefix(word, "http://")
				host, _, _ = strings.Cut(host, ":")
				if _, service, ok := strings.Cut(host, "."); isURL && (!ok || pods[selected[service]].Labels == nil) {
					t.Errorf("%s: %s: %s leads nowhere", path, name, word)
				}
			}
		}
	}
}
