package measured

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/loadgen/formats/scan"
)

// snapshot is the answer of one server at /metrics at one instant, in Prometheus' text format.
type snapshot struct {
	server  string // labels that distinguish servers in one file; "": no such labels
	samples map[string][]promSample
}

// promSample is a line of a snapshot.
type promSample struct {
	labels map[string]string
	value  float64
}

// sum returns the sum over the labels of the first of these metrics that exists, NaN if none does.
func (s *snapshot) sum(names ...string) float64 {
	for _, name := range names {
		if all := s.samples[name]; len(all) > 0 {
			total := 0.0
			for _, x := range all {
				total += x.value
			}
			return total
		}
	}
	return math.NaN()
}

// label returns a label of a metric, "" if the metric does not have it.
func (s *snapshot) label(name, label string) string {
	for _, x := range s.samples[name] {
		if v := x.labels[label]; v != "" {
			return v
		}
	}
	return ""
}

// findSnapshots returns the files of a run with snapshots of metrics, in the order of their names.
func findSnapshots(dir string) ([]string, error) {
	return findFiles(dir, "*.prom", "*.prom.gz", "metrics*.txt", "metrics*.txt.gz")
}

// readSnapshotFile reads the snapshots in a file, which may be compressed.
func readSnapshotFile(path string) ([]*snapshot, error) {
	f, err := scan.OpenPacked(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readSnapshots(path, f)
}

// mostLine bounds a line of a file of metrics.
const mostLine = 1 << 20

// readSnapshots reads the snapshots in a file. There can be one snapshot, several snapshots of the same server in
// sequence, or snapshots of several servers with labels instance or pod.
func readSnapshots(path string, r io.Reader) ([]*snapshot, error) {
	var all []*snapshot
	open, seen := map[string]*snapshot{}, map[string]bool{}
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, mostLine)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimSpace(lines.Text())
		if text == "" || text[0] == '#' {
			continue
		}
		name, series, x, err := parsePromLine(text)
		if err != nil {
			return nil, fmt.Errorf("%s:%d: %w", path, n, err)
		}
		ours := strings.HasPrefix(name, "vllm:") || strings.HasPrefix(name, "sglang:") || name == startName
		if !ours || math.IsNaN(x.value) || math.IsInf(x.value, 0) {
			continue
		}
		server := strings.Join([]string{x.labels["instance"], x.labels["pod"]}, " ")
		if seen[server+series] { // a repeated series starts the snapshot of another instant
			open[server] = nil
			for key := range seen {
				if strings.HasPrefix(key, server) {
					delete(seen, key)
				}
			}
		}
		seen[server+series] = true
		s := open[server]
		if s == nil {
			s = &snapshot{server: strings.TrimSpace(server), samples: map[string][]promSample{}}
			open[server] = s
			all = append(all, s)
		}
		s.samples[name] = append(s.samples[name], x)
	}
	if err := lines.Err(); err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	return all, nil
}

// startName is the metric with the start time of a process.
const startName = "process_start_time_seconds"

// parsePromLine parses NAME{LABEL="VALUE",...} NUMBER and ignores further text. The result series is the text before
// the number.
func parsePromLine(text string) (name, series string, x promSample, err error) {
	end := strings.IndexAny(text, "{ \t")
	if end < 1 {
		return "", "", x, fmt.Errorf("%q, expected NAME{LABELS} NUMBER, as /metrics has it", excerpt.Cut(text))
	}
	name, rest := text[:end], text[end:]
	if rest[0] == '{' {
		if x.labels, rest, err = parseLabels(rest[1:]); err != nil {
			return "", "", x, fmt.Errorf("%s: %w", name, err)
		}
	}
	series = text[:len(text)-len(rest)]
	fields := strings.Fields(rest)
	if len(fields) == 0 {
		return "", "", x, fmt.Errorf("%s has no value, must have a number", excerpt.Cut(series))
	}
	if x.value, err = strconv.ParseFloat(fields[0], 64); err != nil {
		return "", "", x, fmt.Errorf("%s is %q, must be a number", excerpt.Cut(series), excerpt.Cut(fields[0]))
	}
	return name, series, x, nil
}

// parseLabels parses labels up to the brace that ends them.
func parseLabels(text string) (labels map[string]string, rest string, err error) {
	labels = map[string]string{}
	for {
		text = strings.TrimLeft(text, " ,")
		if after, ok := strings.CutPrefix(text, "}"); ok {
			return labels, after, nil
		}
		name, after, ok := strings.Cut(text, "=")
		after, quoted := strings.CutPrefix(strings.TrimLeft(after, " "), `"`)
		if !ok || !quoted {
			return nil, "", fmt.Errorf("labels %q, expected LABEL=\"VALUE\" and a brace at their end", excerpt.Cut(text))
		}
		end := 0
		for end < len(after) && after[end] != '"' {
			if after[end] == '\\' {
				end++
			}
			end++
		}
		if end >= len(after) {
			return nil, "", fmt.Errorf("label %s has no end, must have a quote", excerpt.Cut(name))
		}
		value := strings.NewReplacer(`\\`, `\`, `\"`, `"`, `\n`, "\n").Replace(after[:end])
		labels[strings.TrimSpace(name)], text = value, after[end+1:]
	}
}

// Histogram is a histogram of times in s. Histogram counts the times that are at most each bound.
type Histogram struct {
	bounds, counts []float64 // both increase; the last bound is infinite
	Sum, Count     float64
}

// histogram returns the first of these histograms that exists, as the sum over its labels, or nil if none exists.
func (s *snapshot) histogram(names ...string) *Histogram {
	for _, name := range names {
		count, sum := s.sum(name+"_count"), s.sum(name+"_sum")
		if math.IsNaN(count) || math.IsNaN(sum) {
			continue
		}
		at := map[float64]float64{}
		for _, x := range s.samples[name+"_bucket"] {
			if bound, err := strconv.ParseFloat(x.labels["le"], 64); err == nil && !math.IsNaN(bound) {
				at[bound] += x.value
			}
		}
		h := &Histogram{Sum: sum, Count: count}
		for bound := range at {
			h.bounds = append(h.bounds, bound)
		}
		slices.Sort(h.bounds)
		for _, bound := range h.bounds {
			h.counts = append(h.counts, at[bound])
		}
		return h
	}
	return nil
}

// add adds factor times another histogram with the same bounds.
func (h *Histogram) add(other *Histogram, factor float64) error {
	if !slices.Equal(h.bounds, other.bounds) {
		return errors.New("a histogram has other buckets than the same one elsewhere, must have the same")
	}
	h.Sum, h.Count = h.Sum+float64(factor*other.Sum), h.Count+float64(factor*other.Count)
	for i := range h.counts {
		h.counts[i] += float64(factor * other.counts[i])
	}
	return nil
}

// BoundsOf returns the bounds of the bucket that contains a quantile.
func (h *Histogram) BoundsOf(q float64) (least, most float64) {
	i, _ := slices.BinarySearchFunc(h.counts, float64(q*h.Count), func(a, b float64) int { return cmp.Compare(a, b) })
	if i >= len(h.bounds) {
		return 0, math.Inf(1)
	}
	if i > 0 {
		least = h.bounds[i-1]
	}
	return least, h.bounds[i]
}
