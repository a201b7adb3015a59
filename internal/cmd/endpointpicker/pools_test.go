package endpointpicker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const poolsYAML = `kind: EndpointPickerConfig
plugins:
- {type: prefix-based-pd-decider, parameters: {nonCachedTokens: 512}}
- {type: disagg-profile-handler, parameters: {deciders: {prefill: prefix-based-pd-decider}}}
- {type: prefill-filter}
- {type: decode-filter}
- {type: queue-scorer}
schedulingProfiles:
- {name: prefill, plugins: [{pluginRef: prefill-filter}, {pluginRef: queue-scorer}]}
- {name: decode, plugins: [{pluginRef: decode-filter}, {pluginRef: queue-scorer}]}
`

// readPools reads poolsYAML after replacing texts. changes are pairs of an old and a new text.
func readPools(t *testing.T, changes ...string) (Router, error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "router.yaml")
	if err := os.WriteFile(path, []byte(strings.NewReplacer(changes...).Replace(poolsYAML)), 0o600); err != nil {
		t.Fatal(err)
	}
	return Read(path)
}

// The rule for prefill workers is read for every type of handler and decider.
func TestReadSplit(t *testing.T) {
	const nested = "parameters: {deciders: {prefill: prefix-based-pd-decider}}"
	const decider = "{type: prefix-based-pd-decider, parameters: {nonCachedTokens: 512}}"
	for _, c := range []struct {
		changes []string
		want    Split
	}{
		{nil, Split{Uncached: 512}},
		{[]string{"nonCachedTokens: 512", "nonCachedTokens: 16, promptTokens: 600"}, Split{Uncached: 16, Prompt: 600}},
		{[]string{nested, "parameters: {deciderPluginName: prefix-based-pd-decider}"}, Split{Uncached: 512}},
		{[]string{nested, "parameters: {stageOrder: decode-first, deciders: {prefill: prefix-based-pd-decider}}"}, Split{Uncached: 512}},
		{[]string{"disagg-profile-handler, " + nested, "pd-profile-handler, parameters: {primaryPort: 8000}"}, Split{Uncached: 512}},
		{[]string{"disagg-profile-handler, " + nested, "pd-profile-handler, parameters: {threshold: 0, hashBlockSize: 5}"}, Split{}},
		{[]string{decider, "{type: always-disagg-pd-decider, name: prefix-based-pd-decider}"}, Split{}},
		{[]string{decider, decider + "\n- {type: always-disagg-multimodal-decider}", "{prefill: prefix-based-pd-decider}", "{prefill: prefix-based-pd-decider, encode: always-disagg-multimodal-decider}"}, Split{Uncached: 512}},
		{[]string{nested, "parameters: {profiles: {prefill: p, decode: d}, deciders: {prefill: prefix-based-pd-decider}}", "name: prefill", "name: p", "name: decode", "name: d"}, Split{Uncached: 512}},
	} {
		r, err := readPools(t, c.changes...)
		if err != nil {
			t.Errorf("%q: %v", c.changes, err)
		} else if *r.Split != c.want || r.Decode == nil {
			t.Errorf("%q: %+v, want %+v", c.changes, *r.Split, c.want)
		}
	}
}

// Errors name the setting that is not simulated.
func TestRefusePools(t *testing.T) {
	const nested = "parameters: {deciders: {prefill: prefix-based-pd-decider}}"
	const deciders = "deciders: {prefill: prefix-based-pd-decider}"
	for _, c := range []struct{ old, replacement, want string }{
		{deciders, deciders + ", stageOrder: prefill-first", `stageOrder is "prefill-first"`},
		{deciders, deciders + ", profiles: {fallback: all}", `profiles.fallback is "all"`},
		{deciders, deciders + ", unknown: 1", "parameters of disagg-profile-handler"},
		{deciders, "deciders: {prefill: other}", `"other", which is none of the plugins`},
		{deciders, "deciders: {prefill: queue-scorer}", `of type "queue-scorer"`},
		{deciders, deciders + ", encodeDeciderPluginName: queue-scorer", "deciders.encode"},
		{", " + nested, "", "deciders.prefill is not given"},
		{nested, "parameters: {threshold: 10}", "threshold is 10"},
		{"nonCachedTokens: 512", "nonCachedTokens: 0", "nonCachedTokens is 0, must be from 1"},
		{"nonCachedTokens: 512", "nonCachedTokens: -1", "nonCachedTokens is -1"},
		{"nonCachedTokens: 512", "nonCachedTokens: 5, prefixMatchInfoProducerName: other", `"other", which is none`},
		{"{pluginRef: prefill-filter}, ", "", `schedulingProfile "prefill" must have a prefill-filter`},
		{"{pluginRef: decode-filter}, ", "{pluginRef: prefill-filter}, ", `schedulingProfile "decode" must have a decode-filter`},
		{"name: prefill,", "name: other,", `requires a schedulingProfile "prefill"`},
		{"schedulingProfiles:", "schedulingProfiles:\n- {name: encode, plugins: [{pluginRef: queue-scorer}]}", `schedulingProfile "encode" is neither`},
		{"plugins:\n", "featureGates: [flowControl]\nplugins:\n", "flowControl with prefill and decode profiles"},
		{"- {type: disagg-profile-handler, " + nested + "}\n", "", "2 schedulingProfiles, must be one"},
	} {
		if _, err := readPools(t, c.old, c.replacement); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, want %s", c.replacement, err, c.want)
		}
	}
}
