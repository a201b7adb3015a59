package rundir

import (
	"bufio"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"hash"
	"io"
	"maps"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/replay-llm/replay/report/requests"
	"github.com/replay-llm/replay/scheduler/timing"
)

// DigestFormat is the version of the content of a digest and its order.
const DigestFormat = "v1"

// Input is a file that a run read.
type Input struct {
	Role   string `json:"role"` // "trace" or "profile"
	Path   string `json:"path"` // as it was named; not part of a digest
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"` // of the unchanged bytes, packed or not
}

// HashInput returns the input of the given role with the content of in.
func HashInput(role, path string, in io.Reader) (Input, error) {
	h := sha256.New()
	n, err := io.Copy(h, in)
	return Input{Role: role, Path: path, Bytes: n, SHA256: sumFile(h)}, err
}

// HashFile returns the input of the given role at path.
func HashFile(role, path string) (Input, error) {
	f, err := os.Open(path)
	if err != nil {
		return Input{}, err
	}
	defer f.Close()
	return HashInput(role, path, f)
}

// Digest holds hashes of the inputs, the settings and the results of a run. The hashes do not depend on the machine,
// the system, the threads or file names.
type Digest struct {
	Configuration string `json:"configuration"` // inputs and settings
	Lifecycles    string `json:"lifecycles"`    // hash of the events of each request
	Run           string `json:"digest"`        // hash of both, and of the format
}

// NewDigest returns the digest of a run with the given hash of its requests, see Lifecycles.
func NewDigest(inputs []Input, settings Settings, lifecycles string) Digest {
	d := Digest{Configuration: hashConfiguration(inputs, settings), Lifecycles: lifecycles}
	h := sha256.New()
	fmt.Fprintf(h, "replay digest %s\nconfiguration %s\nlifecycles %s\n", DigestFormat, d.Configuration, d.Lifecycles)
	d.Run = DigestFormat + ":" + sumFile(h)
	return d
}

func sumFile(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// hashConfiguration hashes inputs by content and settings by value. A setting that is a path counts by the content of
// its file.
func hashConfiguration(inputs []Input, settings Settings) string {
	h := sha256.New()
	for _, in := range inputs {
		fmt.Fprintf(h, "input %s %s\n", in.Role, in.SHA256)
	}
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		if value := settings[key]; !isZero(value) && !isPath(key, string(value)) {
			fmt.Fprintf(h, "%s=%s\n", key, value)
		}
	}
	return sumFile(h)
}

// isPath reports whether a setting is the path of an input file. A profile of pass times may be a name without a
// file.
func isPath(key, value string) bool {
	switch {
	case key == "trace.path" || strings.HasSuffix(key, ".lengths_from"):
		return true
	case strings.HasSuffix(key, ".profile_path"):
		return timing.ParseSource(strings.Trim(value, `"`)).Form() == timing.File
	}
	return false
}

// Lifecycles hashes the events of each request, in order of arrival: the bits of its times, its workers and its
// tokens. Lifecycles omits derived values and values that only some runs record.
func Lifecycles(rows []requests.Row) string {
	h := NewLifecycleHash()
	for i := range rows {
		h.Add(&rows[i])
	}
	return h.Sum()
}

// LifecycleHash is Lifecycles for rows that are added one by one.
type LifecycleHash struct {
	hash hash.Hash
	out  *bufio.Writer
	buf  []byte
}

// NewLifecycleHash returns the hash of no rows.
func NewLifecycleHash() *LifecycleHash {
	h := sha256.New()
	return &LifecycleHash{hash: h, out: bufio.NewWriterSize(h, 1<<16)}
}

// Add adds a row.
func (h *LifecycleHash) Add(r *requests.Row) {
	buf := h.buf[:0]
	for _, n := range [...]int{
		r.ID, r.Turn, int(r.Worker), int(r.PrefillWorker), r.Input, r.Output, r.Tokens, r.Reused,
	} {
		buf = binary.LittleEndian.AppendUint64(buf, uint64(int64(n)))
	}
	for _, at := range [...]requests.MS{r.Arrival, r.Admit, r.First, r.Second, r.Last} {
		bits := uint64(math.MaxUint64)
		if at.Known() {
			bits = math.Float64bits(float64(at))
		}
		buf = binary.LittleEndian.AppendUint64(buf, bits)
	}
	h.out.Write(buf) // writes to a hash do not fail
	h.buf = buf
}

// Sum returns the hash of the added rows.
func (h *LifecycleHash) Sum() string {
	h.out.Flush()
	return sumFile(h.hash)
}
