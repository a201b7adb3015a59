package rundir

import (
	"flag"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/replay-llm/replay/replay"
	"github.com/replay-llm/replay/router/policy"
	"github.com/replay-llm/replay/scheduler"
)

var rewrite = flag.Bool("rewrite", false, "write the keys of settings into testdata")

// fillAll sets all pointers in v, and adds one element to each slice.
func fillAll(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fillAll(v.Elem())
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 1, 1))
		fillAll(v.Index(0))
	case reflect.Array:
		for i := range v.Len() {
			fillAll(v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fillAll(v.Field(i))
			}
		}
	}
}

// The keys of settings must not change, since the digests of old runs depend on them.
func TestKeysOfSettings(t *testing.T) {
	var keys []string
	for range 2 { // first with pools of all roles, then with a mix
		var s replay.Spec
		fillAll(reflect.ValueOf(&s).Elem())
		if s.Pools[0].Role = scheduler.Aggregated; len(keys) == 0 {
			s.Pools = append(s.Pools, s.Pools[0], s.Pools[0])
			s.Pools[0].Mix, s.Pools[1].Role, s.Pools[2].Role = nil, scheduler.Prefill, scheduler.Decode
		}
		s.Window.From = 1
		for _, c := range []policy.Choice{new(policy.Configured), new(policy.Gateway), new(policy.Picker), new(policy.Text), new(policy.Process)} {
			fillAll(reflect.ValueOf(c).Elem())
			if s.Router = c; !policy.Is[*policy.Process](c) { // a change cannot set a policy process
				s.Changes[0].Routing = c
			}
			for key := range SettingsOf(s.Recorded()) {
				keys = append(keys, key)
			}
		}
	}
	slices.Sort(keys)
	keys = slices.Compact(keys)
	const path = "testdata/keys.txt"
	if *rewrite {
		if err := os.WriteFile(path, []byte(strings.Join(keys, "\n")+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Fields(string(text))
	for _, key := range want {
		if !slices.Contains(keys, key) {
			t.Errorf("no key %s: its field has another name or place", key)
		}
	}
	for _, key := range keys {
		if !slices.Contains(want, key) {
			t.Errorf("%s is new: go test ./report/rundir -run TestKeysOfSettings -rewrite", key)
		}
	}
}
