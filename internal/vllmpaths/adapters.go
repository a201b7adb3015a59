package vllmpaths

import (
	"net/http"
	"slices"
	"strconv"
	"sync"
)

// mostAdapters is the maximum number of loaded adapters.
const mostAdapters = 10_000

// Adapters are the LoRA adapters of a server.
type Adapters struct {
	Taken []string // names of the model
	mu    sync.Mutex
	names []string
}

// NewAdapters returns the adapters names. taken are the names of the model.
func NewAdapters(taken, names []string) *Adapters {
	return &Adapters{Taken: taken, names: slices.Clone(names)}
}

// Names returns the names of the adapters in loading order.
func (a *Adapters) Names() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.names)
}

// Has reports whether an adapter is loaded.
func (a *Adapters) Has(name string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Contains(a.names, name)
}

// ServeLoad serves POST /v1/load_lora_adapter.
func (a *Adapters) ServeLoad(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Name    string `json:"lora_name"`
		Path    string `json:"lora_path"`
		Inplace bool   `json:"load_inplace"`
	}
	if !readJSON(w, r, &q) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	known := slices.Contains(a.names, q.Name)
	switch {
	case q.Name == "" || q.Path == "":
		writeProblem(w, http.StatusBadRequest, "InvalidUserInput", "", "lora_name and lora_path are required")
	case slices.Contains(a.Taken, q.Name):
		writeProblem(w, http.StatusBadRequest, "InvalidUserInput", "", "lora_name is "+q.Name+", the name of the model")
	case known && !q.Inplace:
		writeProblem(w, http.StatusBadRequest, "InvalidUserInput", "", "lora_name is "+q.Name+", which is loaded: load_inplace must be true")
	case !known && len(a.names) >= mostAdapters:
		writeProblem(w, http.StatusBadRequest, "InvalidUserInput", "", strconv.Itoa(mostAdapters)+" adapters are loaded, which is the limit")
	default:
		if !known {
			a.names = append(a.names, q.Name)
		}
		writeText(w, "the adapter "+q.Name+" is loaded\n")
	}
}

// ServeUnload serves POST /v1/unload_lora_adapter.
func (a *Adapters) ServeUnload(w http.ResponseWriter, r *http.Request) {
	var q struct {
		Name string `json:"lora_name"`
	}
	if !readJSON(w, r, &q) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	at := slices.Index(a.names, q.Name)
	switch {
	case q.Name == "":
		writeProblem(w, http.StatusBadRequest, "InvalidUserInput", "", "lora_name is required")
	case at < 0:
		writeProblem(w, http.StatusNotFound, "NotFoundError", "", "lora_name is "+q.Name+", which is not loaded")
	default:
		a.names = slices.Delete(a.names, at, at+1)
		writeText(w, "the adapter "+q.Name+" is not loaded any more\n")
	}
}

// writeText writes a text as the answer.
func writeText(w http.ResponseWriter, text string) {
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte(text)) // a write error means that the client has closed the connection
}
