// Package vllmpaths serves paths of the vLLM server that do not use the engine, and paths that are translated to
// completions.
//
// Read paths.go, then responses.go, embeddings.go, adapters.go, sleep.go.
package vllmpaths

import (
	"bytes"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/replay-llm/replay/internal/json"
)

// mostBody is the maximum size of a request body, in bytes.
const mostBody = 8 << 20

// problem is an error in the format of the OpenAI API.
type problem struct {
	Message string  `json:"message"`
	Type    string  `json:"type"`
	Param   *string `json:"param"`
	Code    int     `json:"code"`
}

// writeProblem writes an error as the answer.
func writeProblem(w http.ResponseWriter, status int, kind, param, message string) {
	p := problem{Message: message, Type: kind, Code: status}
	if param != "" {
		p.Param = &param
	}
	writeJSON(w, status, map[string]problem{"error": p})
}

// refuseValue writes an error about a value of the request.
func refuseValue(w http.ResponseWriter, param, message string) {
	writeProblem(w, http.StatusBadRequest, "BadRequestError", param, message)
}

// writeJSON writes a JSON document as the answer.
func writeJSON(w http.ResponseWriter, status int, answer any) {
	b, err := json.MarshalUnescaped(answer)
	if err != nil {
		panic(err) // encoding values of this package cannot fail
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(b)))
	w.WriteHeader(status)
	_, _ = w.Write(b) // a write error means that the client has closed the connection
}

// readJSON decodes the body of a request into a value. If that fails, it writes an error as the answer and returns
// false.
func readJSON(w http.ResponseWriter, r *http.Request, into any) bool {
	body, ok := readBody(w, r)
	if !ok {
		return false
	}
	if err := json.Unmarshal(body, into); err != nil {
		refuseValue(w, "", "body: "+err.Error())
		return false
	}
	return true
}

// readBody reads the body of a request. If that fails, it writes an error as the answer and returns false.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	control := http.NewResponseController(w)
	_ = control.SetReadDeadline(time.Now().Add(30 * time.Second))
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, mostBody))
	if err != nil {
		writeProblem(w, http.StatusRequestEntityTooLarge, "BadRequestError", "", "body: must be at most "+strconv.Itoa(mostBody)+" bytes, within 30 s")
		return nil, false
	}
	_ = control.SetReadDeadline(time.Time{})
	return body, true
}

// forwardTo returns a copy of r with a new path and a JSON body.
func forwardTo(r *http.Request, path string, body any) *http.Request {
	b, err := json.MarshalUnescaped(body)
	if err != nil {
		panic(err) // encoding values of this package cannot fail
	}
	return withBody(r, path, b)
}

// withBody returns a copy of r with a new path and body.
func withBody(r *http.Request, path string, b []byte) *http.Request {
	next := r.Clone(r.Context())
	next.URL.Path, next.ContentLength, next.Body = path, int64(len(b)), io.NopCloser(bytes.NewReader(b))
	return next
}

// kept buffers an answer.
type kept struct {
	header http.Header
	status int
	body   bytes.Buffer
}

func newKept() *kept { return &kept{header: http.Header{}, status: http.StatusOK} }

// Header returns the header of the buffered answer.
func (k *kept) Header() http.Header { return k.header }

// WriteHeader sets the status of the buffered answer.
func (k *kept) WriteHeader(status int) { k.status = status }

// Write appends b to the body.
func (k *kept) Write(b []byte) (int, error) { return k.body.Write(b) }

// Flush does nothing, because send writes the whole answer.
func (k *kept) Flush() {}

// send writes the buffered answer to w.
func (k *kept) send(w http.ResponseWriter) {
	for name, values := range k.header {
		w.Header()[name] = values
	}
	w.WriteHeader(k.status)
	_, _ = w.Write(k.body.Bytes()) // a write error means that the client has closed the connection
}

// events replaces the data of each event of a stream with the result of on. Other answers are unchanged.
type events struct {
	http.ResponseWriter
	on     func(data []byte) []byte
	stream bool
	rest   []byte
}

// Unwrap returns the wrapped ResponseWriter, for http.ResponseController.
func (e *events) Unwrap() http.ResponseWriter { return e.ResponseWriter }

// WriteHeader records whether the answer is a stream.
func (e *events) WriteHeader(status int) {
	e.stream = bytes.HasPrefix([]byte(e.Header().Get("Content-Type")), []byte("text/event-stream"))
	e.ResponseWriter.WriteHeader(status)
}

// Write translates complete events and buffers an incomplete event.
func (e *events) Write(b []byte) (int, error) {
	if !e.stream {
		return e.ResponseWriter.Write(b)
	}
	e.rest = append(e.rest, b...)
	var out []byte
	for {
		at := bytes.Index(e.rest, []byte("\n\n"))
		if at < 0 {
			break
		}
		out = append(out, e.on(bytes.TrimPrefix(e.rest[:at], []byte("data: ")))...)
		e.rest = e.rest[at+2:]
	}
	if len(out) > 0 {
		if _, err := e.ResponseWriter.Write(out); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// usage has the token counts of an answer.
type usage struct {
	Prompt     int      `json:"prompt_tokens"`
	Total      int      `json:"total_tokens"`
	Completion int      `json:"completion_tokens"`
	Details    *details `json:"prompt_tokens_details"`
}

// details has the token counts of a prompt.
type details struct {
	Cached int `json:"cached_tokens"`
}
