package tidy

import (
	"os/exec"
	"strings"
	"testing"
)

// The simulator holds nothing that talks to other processes: no package that it
// imports, directly or not, imports etcd, NATS, gRPC or OpenTelemetry, or is of
// the served side. Nor has it a JSON library besides the standard one, which
// would take a tenth of its file and 1 MiB of memory before anything is read.
func TestSimulatorHasNoNetwork(t *testing.T) {
	cmd := exec.Command("go", "list", "-deps", "./cmd/replay")
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := strings.Fields(string(out))
	if len(packages) < 100 {
		t.Fatalf("%d packages, want all that the program is made of", len(packages))
	}
	for _, name := range packages {
		for _, stranger := range []string{
			"go.etcd.io/", "github.com/nats-io/", "google.golang.org/grpc", "go.opentelemetry.io/", "github.com/prometheus/", module + "/live", "github.com/goccy/go-json",
		} {
			if strings.HasPrefix(name, stranger) {
				t.Errorf("cmd/replay has %s in it", name)
			}
		}
	}
}
