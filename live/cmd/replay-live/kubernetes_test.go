package main

import (
	"net/http"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/replay-llm/replay/internal/poll"
)

// deployed is a container in examples/stack/kubernetes.
type deployed struct {
	Name  string   `yaml:"name"`
	Args  []string `yaml:"args"`
	Ports []struct {
		Name string `yaml:"name"`
		Port int    `yaml:"containerPort"`
	} `yaml:"ports"`
	Env []struct {
		Name  string `yaml:"name"`
		Value string `yaml:"value"`
	} `yaml:"env"`
	Startup   deployedProbe `yaml:"startupProbe"`
	Liveness  deployedProbe `yaml:"livenessProbe"`
	Readiness deployedProbe `yaml:"readinessProbe"`
}

type deployedProbe struct {
	Get struct {
		Path string `yaml:"path"`
		Port string `yaml:"port"`
	} `yaml:"httpGet"`
}

// readContainer reads the container of a Deployment, and its number of replicas.
func readContainer(t *testing.T, name string) (d deployed, replicas int) {
	t.Helper()
	first, _, _ := strings.Cut(string(readStack(t, "kubernetes/"+name+".yaml")), "\n---\n")
	var manifest struct {
		Spec struct {
			Replicas int `yaml:"replicas"`
			Template struct {
				Spec struct {
					Containers []deployed `yaml:"containers"`
				} `yaml:"spec"`
			} `yaml:"template"`
		} `yaml:"spec"`
	}
	if err := yaml.Unmarshal([]byte(first), &manifest); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	all := manifest.Spec.Template.Spec.Containers
	if len(all) != 1 {
		t.Fatalf("%s: %d containers, want one", name, len(all))
	}
	return all[0], manifest.Spec.Replicas
}

// start starts the container's command on loopback. start checks that the environment has the pod's address, the
// addresses of etcd and NATS, and the token.
func (d *deployed) start(t *testing.T, c *compound) *member {
	t.Helper()
	had := map[string]bool{}
	for _, e := range d.Env {
		had[e.Name] = true
	}
	for _, name := range []string{"POD_IP", "ETCD_ENDPOINTS", "NATS_SERVER", "REPLAY_LINK_TOKEN"} {
		if !had[name] {
			t.Errorf("%s: no %s in its environment", d.Name, name)
		}
	}
	said := strings.Join(d.Args, " ") + " "
	for _, p := range d.Ports {
		if !strings.Contains(said, "-port="+strconv.Itoa(p.Port)+" ") {
			t.Errorf("%s: port %s is %d, where its command does not listen: %s", d.Name, p.Name, p.Port, said)
		}
	}
	if strings.Count(said, "-port=") != len(d.Ports) {
		t.Errorf("%s: %d ports for %s", d.Name, len(d.Ports), said)
	}
	return c.start(commandHere(d.Args, "$(POD_IP)", "127.0.0.1")...)
}

// The commands in the manifests start, find each other and answer. Probes without a token are answered at their
// ports. A frontend is live before it has workers, and ready after the first worker.
func TestKubernetes(t *testing.T) {
	c := newCompound(t)
	c.env = []string{"REPLAY_LINK_TOKEN=" + linkToken}
	front, _ := readContainer(t, "frontend")
	work, replicas := readContainer(t, "worker")
	if replicas != 8 {
		t.Errorf("%d workers, want 8", replicas)
	}
	f := front.start(t, c)
	if code := statusAt(t, f, front.Liveness.Get.Path); code != http.StatusOK {
		t.Errorf("a frontend without workers is not alive: %d", code)
	}
	if code := statusAt(t, f, front.Readiness.Get.Path); code != http.StatusServiceUnavailable {
		t.Errorf("a frontend without workers is ready: %d", code)
	}
	w := work.start(t, c)
	awaitModel(t, f, "mocker-model")
	if code, body := complete(t, f, "mocker-model"); code != http.StatusOK {
		t.Fatalf("%d: %s", code, body)
	}
	for _, p := range []struct {
		m     *member
		probe deployedProbe
		port  string
	}{
		{f, front.Liveness, "http"}, {f, front.Readiness, "http"},
		{w, work.Startup, "system"}, {w, work.Liveness, "system"}, {w, work.Readiness, "system"},
	} {
		poll.Until(t, p.probe.Get.Path+" is answered", func() bool { return statusAt(t, p.m, p.probe.Get.Path) == http.StatusOK })
		if p.probe.Get.Port != p.port {
			t.Errorf("%s is asked at port %s, want %s", p.probe.Get.Path, p.probe.Get.Port, p.port)
		}
	}
}
