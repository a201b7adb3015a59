package vllmpaths

import (
	"encoding/base64"
	"encoding/binary"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"net/http"
	"strconv"
	"time"

	"github.com/replay-llm/replay/internal/json"
)

const (
	defaultDimensions = 1024
	mostDimensions    = 8192
	mostInputs        = 2048
)

// embedding is an item of an answer. Vector is a list of numbers, or base64 of float32 values.
type embedding struct {
	Index  int    `json:"index"`
	Object string `json:"object"`
	Vector any    `json:"embedding"`
}

// Embeddings serves /v1/embeddings. The engine processes each input as a prompt with one output token. Vectors have
// length 1 and depend only on the input.
func Embeddings(completions http.Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var q struct {
			Model      string          `json:"model,omitempty"`
			Input      json.RawMessage `json:"input"`
			Format     string          `json:"encoding_format"`
			Dimensions *int            `json:"dimensions"`
		}
		if !readJSON(w, r, &q) {
			return
		}
		inputs, ok := splitInputs(q.Input)
		size := defaultDimensions
		if q.Dimensions != nil {
			size = *q.Dimensions
		}
		switch {
		case !ok || len(inputs) > mostInputs:
			refuseValue(w, "input", "input: must be a text, a list of token ids, or a list of 1 to "+strconv.Itoa(mostInputs)+" of them")
			return
		case size < 1 || size > mostDimensions:
			refuseValue(w, "dimensions", "dimensions is "+strconv.Itoa(size)+", must be 1 to "+strconv.Itoa(mostDimensions))
			return
		case q.Format != "" && q.Format != "float" && q.Format != "base64":
			refuseValue(w, "encoding_format", "encoding_format: must be float or base64")
			return
		}
		k := newKept()
		body := map[string]any{"prompt": q.Input, "max_tokens": 1, "ignore_eos": true}
		if q.Model != "" {
			body["model"] = q.Model
		}
		completions.ServeHTTP(k, forwardTo(r, "/v1/completions", body))
		var whole struct {
			Model string `json:"model"`
			Usage usage  `json:"usage"`
		}
		if k.status != http.StatusOK || json.Unmarshal(k.body.Bytes(), &whole) != nil {
			k.send(w)
			return
		}
		data := make([]embedding, len(inputs))
		for i, input := range inputs {
			v := vectorOf(input, size)
			data[i] = embedding{i, "embedding", v}
			if q.Format == "base64" {
				data[i].Vector = encodeVector(v)
			}
		}
		u := usage{Prompt: whole.Usage.Prompt, Total: whole.Usage.Prompt, Details: whole.Usage.Details}
		writeJSON(w, http.StatusOK, struct {
			ID      string      `json:"id"`
			Object  string      `json:"object"`
			Created int64       `json:"created"`
			Model   string      `json:"model"`
			Data    []embedding `json:"data"`
			Usage   usage       `json:"usage"`
		}{"embd-" + newID(), "list", time.Now().Unix(), whole.Model, data, u})
	}
}

// splitInputs returns the unchanged JSON of each input of a request.
func splitInputs(raw json.RawMessage) (inputs []string, ok bool) {
	var text string
	if len(raw) == 0 {
		return nil, false
	}
	if json.Unmarshal(raw, &text) == nil && raw[0] == '"' {
		return []string{text}, true
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return nil, false
	}
	if c := list[0][0]; c >= '0' && c <= '9' {
		return []string{string(raw)}, true
	}
	for _, one := range list {
		if json.Unmarshal(one, &text) == nil && one[0] == '"' {
			inputs = append(inputs, text)
		} else {
			inputs = append(inputs, string(one))
		}
	}
	return inputs, true
}

// vectorOf returns a pseudo-random vector of length 1 that depends only on the input.
func vectorOf(input string, size int) []float32 {
	h := fnv.New64a()
	h.Write([]byte(input))
	draw := rand.New(rand.NewPCG(h.Sum64(), uint64(size)))
	v, sum := make([]float32, size), 0.0
	for i := range v {
		x := draw.NormFloat64()
		v[i], sum = float32(x), sum+float64(x*x)
	}
	length := float32(math.Sqrt(sum))
	for i := range v {
		v[i] /= length
	}
	return v
}

// encodeVector returns the little-endian bytes of a vector as base64.
func encodeVector(v []float32) string {
	b := make([]byte, 0, 4*len(v))
	for _, x := range v {
		b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
	}
	return base64.StdEncoding.EncodeToString(b)
}

// newID returns a random id.
func newID() string { return strconv.FormatUint(rand.Uint64()|1<<63, 16) }
