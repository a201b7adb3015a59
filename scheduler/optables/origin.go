package optables

import "github.com/replay-llm/replay/internal/json"

// Origin is the origin of the tables in the program.
type Origin struct {
	Source  string   `json:"source"`
	Release string   `json:"release"`
	License string   `json:"license"`
	Notice  string   `json:"notice"`
	GPUs    []Report `json:"gpus"`
}

// Provenance returns where the tables in the program are from, and the outcome of their rows.
func Provenance() (*Origin, error) {
	text, err := files.ReadFile("systems/provenance.json")
	if err != nil {
		return nil, err
	}
	o := &Origin{}
	return o, json.Unmarshal(text, o)
}
