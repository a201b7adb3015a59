package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	apps "k8s.io/api/apps/v1"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/kubernetes/scheme"
)

// The manifests of Kubernetes that replay plan --emit writes have only keys that Kubernetes knows; services, routers and
// ConfigMaps are those that pods name.
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
