package stack_test

import (
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
)

// What etcd's packages register at the start of every program is registered
// nowhere, and others find the default registry as it was.
func TestEtcdRegistersNothing(t *testing.T) {
	families, err := prometheus.DefaultGatherer.Gather()
	if err != nil {
		t.Fatal(err)
	}
	others := 0
	for _, f := range families {
		if strings.HasPrefix(f.GetName(), "etcd") {
			t.Errorf("%s is registered", f.GetName())
		} else {
			others++
		}
	}
	if others == 0 {
		t.Error("nothing is registered, want Go's own metrics")
	}
	if _, ok := prometheus.DefaultRegisterer.(*prometheus.Registry); !ok {
		t.Errorf("the default registerer is a %T, want the registry", prometheus.DefaultRegisterer)
	}
}
