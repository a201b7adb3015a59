package tidy

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// listPackages returns the packages of a program, and what each imports.
func listPackages(t *testing.T, program string) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-deps", "-f", "{{.ImportPath}} {{join .Imports \" \"}}", program)
	cmd.Dir = root
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	packages := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		words := strings.Fields(line)
		packages[words[0]] = words[1:]
	}
	if len(packages) < 100 {
		t.Fatalf("%d packages, want all that the program is made of", len(packages))
	}
	return packages
}

// Both programs have the libraries that were agreed for them, and read and write JSON with no other.
func TestProgramsHaveAgreedLibraries(t *testing.T) {
	for _, program := range []string{"./cmd/replay", "./cmd/replay-live"} {
		packages := listPackages(t, program)
		for _, library := range []string{
			"github.com/spf13/cobra", "github.com/schollz/progressbar/v3", "github.com/zeebo/xxh3", "gonum.org/v1/gonum/", "github.com/goccy/go-json",
		} {
			found := false
			for name := range packages {
				found = found || strings.HasPrefix(name, library)
			}
			if !found {
				t.Errorf("%s has no %s in it", program, library)
			}
		}
		for name, imports := range packages {
			// internal/json takes the types of values from there that go-json takes from there.
			if strings.HasPrefix(name, module) && name != module+"/internal/json" && slices.Contains(imports, "encoding/json") {
				t.Errorf("%s imports encoding/json; want %s/internal/json", name, module)
			}
		}
	}
}

// The simulator holds nothing that talks to other processes: no package that it
// imports, directly or not, imports etcd, NATS, gRPC or OpenTelemetry, or is of
// the served side.
func TestSimulatorHasNoNetwork(t *testing.T) {
	for name := range listPackages(t, "./cmd/replay") {
		for _, stranger := range []string{
			"go.etcd.io/", "github.com/nats-io/", "google.golang.org/grpc", "go.opentelemetry.io/", "github.com/prometheus/", module + "/live",
		} {
			if strings.HasPrefix(name, stranger) {
				t.Errorf("cmd/replay has %s in it", name)
			}
		}
	}
}
