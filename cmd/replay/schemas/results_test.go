package schemas

import (
	"regexp"
	"testing"

	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/schema"
)

// Every column of the file of requests has a meaning.
func TestRequestShape(t *testing.T) {
	properties, _ := requestShape()["properties"].(schema.Shape)
	if all := requests.Columns(); len(properties) != len(all) || len(all) == 0 {
		t.Errorf("%d properties of %d columns", len(properties), len(all))
	}
	for name, of := range properties {
		if of.(schema.Shape)["description"] == "" {
			t.Errorf("%s: no meaning", name)
		}
	}
}

// No key has two descriptions, and patterns are valid regular expressions.
func TestReportShape(t *testing.T) {
	properties, _ := reportShape()["properties"].(schema.Shape)
	seen := make(map[string]bool)
	for _, g := range listGroups() {
		for _, key := range regexp.MustCompile(`\S+`).FindAllString(g.keys, -1) {
			if seen[key] {
				t.Errorf("%s: twice", key)
			}
			seen[key] = true
		}
	}
	for name, of := range properties {
		if text, _ := of.(schema.Shape)["description"].(string); text == "" {
			t.Errorf("%s: no meaning", name)
		}
	}
	for pattern := range listPatterns() {
		regexp.MustCompile(pattern)
	}
}
