package plan

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/json"
)

// Shard is one of several parts of a sweep: cell i is in shard i%Of.
type Shard struct {
	Index int `json:"index"` // below Of
	Of    int `json:"of"`
}

// String returns the shard in the form of the flag: its number, from 1, and the number of shards.
func (s Shard) String() string { return fmt.Sprintf("%d/%d", s.Index+1, s.Of) }

// Take returns the cells of the shard, and the keys of their tasks.
func (s Shard) Take(cells []Cell, keys []string) (own []Cell, ownKeys []string) {
	for i := s.Index; i < len(cells); i += s.Of {
		own, ownKeys = append(own, cells[i]), append(ownKeys, keys[i])
	}
	return own, ownKeys
}

// Part is the first line of the file of a shard. The outcomes of its cells follow, one per line.
type Part struct {
	Shard
	Program string   `json:"program"`
	Sweep   string   `json:"sweep"` // digest of the keys of all cells
	Cells   int      `json:"cells"` // of the sweep, resamples included
	Grid    Grid     `json:"grid"`
	Keys    []string `json:"keys"` // of the shard's cells
}

// NewPart returns the first line of the file of a shard. keys are the keys of all cells of the sweep.
func NewPart(s Shard, program string, g *Grid, keys []string) *Part {
	sum := sha256.Sum256([]byte(strings.Join(keys, "\n")))
	p := &Part{Shard: s, Program: program, Sweep: hex.EncodeToString(sum[:]), Cells: len(keys), Grid: *g}
	_, p.Keys = s.Take(make([]Cell, len(keys)), keys)
	return p
}

// OpenPart opens or creates the file of a shard. The journal contains the reports in the file. The journal also
// stores cells without a report.
func OpenPart(path string, p *Part) (*Journal, error) {
	head, err := json.Marshal(p)
	if err != nil {
		return nil, err
	}
	return openJournal(path, append(head, '\n'))
}

// MergeParts reads the files of all shards of a sweep. MergeParts returns the grid and the outcomes of its cells, in
// grid order.
func MergeParts(paths []string) (*Grid, []Outcome, error) {
	var first *Part
	var outcomes []Outcome
	var read []string // the path of each shard
	for _, path := range paths {
		part, own, err := readPart(path)
		if err != nil {
			return nil, nil, err
		}
		if first == nil {
			first, outcomes, read = part, make([]Outcome, part.Cells), make([]string, part.Of)
		}
		switch {
		case part.Program != first.Program:
			return nil, nil, fmt.Errorf("%s: is of program %s, must be of %s as %s", path, part.Program, first.Program, paths[0])
		case part.Sweep != first.Sweep || part.Cells != first.Cells:
			return nil, nil, fmt.Errorf("%s: is of another sweep than %s: settings and traces must be the same", path, paths[0])
		case part.Of != first.Of:
			return nil, nil, fmt.Errorf("%s: is shard %s, must be one of %d as %s", path, part.Shard, first.Of, paths[0])
		case read[part.Index] != "":
			return nil, nil, fmt.Errorf("%s: is shard %s as %s, must be given once", path, part.Shard, read[part.Index])
		}
		read[part.Index] = path
		for i, key := range part.Keys {
			o, ok := own[key]
			if !ok {
				return nil, nil, fmt.Errorf("%s: has %d of %d cells of shard %s: run the shard again", path, len(own), len(part.Keys), part.Shard)
			}
			outcomes[part.Index+i*part.Of] = o
		}
	}
	var missing []string
	for i, path := range read {
		if path == "" {
			missing = append(missing, Shard{Index: i, Of: first.Of}.String())
		}
	}
	if len(missing) > 0 {
		return nil, nil, fmt.Errorf("missing shards: %s", strings.Join(missing, ", "))
	}
	return &first.Grid, outcomes, nil
}

// readPart reads the file of a shard, and its outcomes by key.
func readPart(path string) (*Part, map[string]Outcome, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, nil, err
	}
	head, rest, _ := bytes.Cut(text, []byte{'\n'})
	p := &Part{}
	if json.Unmarshal(head, p) != nil || !p.sound() {
		return nil, nil, fmt.Errorf("%s: is not a shard of a sweep", path)
	}
	own := make(map[string]Outcome)
	_, err = readOutcomes(path, rest, 2, func(o *Outcome) { own[o.Key] = *o })
	return p, own, err
}

// sound reports whether the numbers of a part are consistent.
func (p *Part) sound() bool {
	return p.Of > 0 && p.Index >= 0 && p.Index < p.Of && p.Cells > 0 && p.Cells <= maxCells && p.Grid.Check() == nil && p.Cells%p.Grid.Size() == 0 &&
		len(p.Keys) == (p.Cells-p.Index+p.Of-1)/p.Of && !slices.Contains(p.Keys, "")
}
