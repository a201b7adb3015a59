package optables

import "github.com/replay-llm/replay/internal/json"

// Origin describes the origin of the built-in tables.
type Origin struct {
	Source  string   `json:"source"`
	Release string   `json:"release"`
	License string   `json:"license"`
	Notice  string   `json:"notice"`
	GPUs    []Report `json:"gpus"`
}

// Provenance returns the origin of the built-in tables, with the numbers of kept, dropped and changed rows.
func Provenance() (*Origin, error) {
	text, err := files.ReadFile("systems/provenance.json")
	if err != nil {
		return nil, err
	}
	o := &Origin{}
	return o, json.Unmarshal(text, o)
}
