package sglang

import (
	"context"
	"net/http"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/standalone"
)

// newHandler returns the handler of SGLang's paths. own is the handler of OpenAI's paths.
func (s *Server) newHandler(own http.Handler) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /v1/completions", own)
	mux.Handle("POST /v1/chat/completions", own)
	for _, method := range []string{"POST ", "PUT "} {
		mux.HandleFunc(method+"/generate", s.serveGenerate)
	}
	mux.HandleFunc("GET /v1/models", s.serveModels)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	mux.HandleFunc("GET /health_generate", s.serveHealth)
	for _, path := range []string{"/model_info", "/get_model_info"} {
		mux.HandleFunc("GET "+path, s.serveModel)
	}
	for _, path := range []string{"/server_info", "/get_server_info"} {
		mux.HandleFunc("GET "+path, s.serveServer)
	}
	mux.Handle("GET /metrics", s.Metrics.Handler())
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		standalone.WriteJSON(w, http.StatusNotFound, map[string]string{"detail": "Not Found"})
	})
	return mux
}

func (s *Server) serveModels(w http.ResponseWriter, _ *http.Request) {
	type model struct {
		ID      string  `json:"id"`
		Object  string  `json:"object"`
		Created int64   `json:"created"`
		Owner   string  `json:"owned_by"`
		Root    string  `json:"root"`
		Parent  *string `json:"parent"`
		Longest int     `json:"max_model_len"`
	}
	m := &s.Served
	standalone.WriteJSON(w, http.StatusOK, map[string]any{"object": "list", "data": []model{{m.Name, "model", m.Since.Unix(), "sglang", m.Name, nil, m.ContextLength}}})
}

// serveHealth responds after the engine has generated a token.
func (s *Server) serveHealth(w http.ResponseWriter, r *http.Request) {
	rq := &engine.Request{TokenIDs: []uint32{0}, HealthCheck: true}
	rq.SetMaxTokens(1)
	ctx, release := context.WithCancel(r.Context())
	defer release()
	status := http.StatusOK
	if engine.Probe(ctx, cancel.New(""), s.Served.Target, rq) != nil {
		status = http.StatusServiceUnavailable
	}
	w.WriteHeader(status)
}

func (s *Server) serveModel(w http.ResponseWriter, _ *http.Request) {
	standalone.WriteJSON(w, http.StatusOK, map[string]any{"model_path": s.Served.Name, "tokenizer_path": s.Served.Name, "is_generation": true, "preferred_sampling_params": nil, "weight_version": "default"})
}

func (s *Server) serveServer(w http.ResponseWriter, _ *http.Request) {
	a := &s.Options.Engine.Engine
	standalone.WriteJSON(w, http.StatusOK, map[string]any{
		"model_path": s.Served.Name, "served_model_name": s.Served.Name, "version": s.Options.Version, "context_length": s.Served.ContextLength, "page_size": a.BlockTokens,
		"max_total_num_tokens": a.Blocks * a.BlockTokens, "max_running_requests": a.SGLang.MaxRunning, "chunked_prefill_size": a.SGLang.ChunkTokens,
		"tp_size": 1, "dp_size": 1, "disaggregation_mode": "null", "status": "ready",
	})
}
