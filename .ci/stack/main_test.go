package main

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const stackDir = "../../examples/stack"

// The stack has no errors, and each of these changes gives an error.
func TestMistakesAreFound(t *testing.T) {
	if err := checkStack(context.Background(), stackDir); err != nil {
		t.Error(err)
	}
	for _, c := range []struct{ file, old, new, want string }{
		{"Dockerfile", "RUN go mod", "RUNS go mod", "unknown instruction: RUNS"},
		{"Dockerfile", "--from=build", "--from=built", "built"},
		{"Dockerfile", "AS build", "as build", "FromAsCasing"},
		{"compose.yaml", "restart:", "restarts:", "restarts"},
		{"compose.yaml", "etcd: {condition", "etcds: {condition", "etcds"},
		{"compose.yaml", "nats:2.10.24-alpine", "nats", `"nats" has no version`},
		{"compose.yaml", "./prometheus.yaml:", "./prometheuses.yaml:", "prometheuses.yaml"},
		{"compose.yaml", "test: [CMD, etcdctl, endpoint, health]", "", "etcd has no health check"},
		{"prometheus.yaml", "job_name: worker", "job_name: frontend", "frontend"},
		{"kubernetes/scrape.yaml", "type: A", "type: B", "invalid"},
		{"kubernetes/worker.yaml", "livenessProbe", "liveProbe", "liveProbe"},
		{"kubernetes/worker.yaml", "replicas: 8", "replicas: eight", "spec.replicas"},
		{"kubernetes/worker.yaml", "port: system}, periodSeconds: 2}", "port: systems}}", `"systems"`},
		{"kubernetes/worker.yaml", "selector: {app: worker}", "selector: {app: workers}", "workers"},
		{"kubernetes/worker.yaml", "limits: {memory: 512Mi}", "limits: {}", "limit of memory"},
		{"kubernetes/etcd.yaml", "etcd:v3.5.17", "etcd", "has no version"},
		{"kubernetes/grafana.yaml", "configMap: {name: grafana-boards}", "configMap: {name: boards}", "no ConfigMap boards"},
		{"kubernetes/network.yaml", "app: prometheus", "app: prometheuses", "prometheuses"},
		{"kustomization.yaml", "kubernetes/nats.yaml", "kubernetes/natss.yaml", "natss.yaml"},
		{"kustomization.yaml", "  - kubernetes/network.yaml\n", "", "no NetworkPolicy"},
	} {
		dir := t.TempDir()
		if err := os.CopyFS(dir, os.DirFS(stackDir)); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, c.file)
		text, err := os.ReadFile(path)
		if err != nil || !strings.Contains(string(text), c.old) {
			t.Fatalf("%s: no %q, %v", c.file, c.old, err)
		}
		if err := os.WriteFile(path, []byte(strings.ReplaceAll(string(text), c.old, c.new)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := checkStack(context.Background(), dir); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s with %q: %v, want a complaint with %q", c.file, c.new, err, c.want)
		}
	}
}
