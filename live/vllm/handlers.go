package vllm

import (
	"fmt"
	"mime"
	"net/http"
	"slices"

	"github.com/replay-llm/replay/internal/plausible"
	"github.com/replay-llm/replay/internal/vllmpaths"
	"github.com/replay-llm/replay/live/openai"
	"github.com/replay-llm/replay/live/standalone"
)

// path is the handler of a path.
type path struct {
	serve   http.HandlerFunc
	methods []string // nil: all methods
	quiet   bool     // requests are not counted
}

// newHandler returns the handler of vLLM's paths. own is the handler of completions and chat completions.
func (s *Server) newHandler(own http.Handler) http.Handler {
	if !s.plain {
		own = plausible.Wrap(own, s.Options.Tokenize, func(w http.ResponseWriter, key, message string) {
			writeError(w, &openai.Error{Status: http.StatusBadRequest, Param: key, Message: message})
		})
	}
	if s.transfer != nil {
		own = s.transfer.Wrap(own)
	}
	get, post := []string{http.MethodGet}, []string{http.MethodPost}
	answers := s.countLoad(onlyJSON(own.ServeHTTP))
	expose := s.Metrics.Handler().ServeHTTP
	paths := map[string]path{
		"/health":              {serveNothing, get, true},
		"/ping":                {serveNothing, []string{http.MethodGet, http.MethodPost}, true},
		"/version":             {s.serveVersion, get, true},
		"/load":                {s.serveLoad, get, true},
		"/metrics":             {expose, nil, true},
		"/metrics/":            {expose, nil, true},
		"/kv_event_sources":    {s.serveSources, get, false},
		"/v1/models":           {s.serveModels, get, false},
		"/tokenize":            {onlyJSON(s.serveTokenize), post, false},
		"/detokenize":          {onlyJSON(s.serveDetokenize), post, false},
		"/v1/completions":      {answers, post, false},
		"/v1/chat/completions": {answers, post, false},
		"/v1/responses":        {s.countLoad(onlyJSON(vllmpaths.Responses(own))), post, false},
		"/v1/embeddings":       {s.countLoad(onlyJSON(vllmpaths.Embeddings(own))), post, false},
	}
	if s.dev {
		paths["/sleep"] = path{s.Sleep.ServeSleep, post, false}
		paths["/wake_up"] = path{s.Sleep.ServeWakeUp, post, false}
		paths["/is_sleeping"] = path{s.Sleep.ServeIsSleeping, get, false}
	}
	if s.Options.Engine.Adapted != nil {
		paths["/v1/load_lora_adapter"] = path{onlyJSON(s.adapters.ServeLoad), post, false}
		paths["/v1/unload_lora_adapter"] = path{onlyJSON(s.adapters.ServeUnload), post, false}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p, known := paths[r.URL.Path]
		name := r.URL.Path
		switch {
		case !known:
			name, p.serve = "none", func(w http.ResponseWriter, _ *http.Request) { writeDetail(w, http.StatusNotFound, "Not Found") }
		case p.methods != nil && !slices.Contains(p.methods, r.Method):
			name, p.serve = "none", func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Allow", p.methods[0])
				writeDetail(w, http.StatusMethodNotAllowed, "Method Not Allowed")
			}
		}
		if p.quiet {
			p.serve(w, r)
			return
		}
		s.requests.Observe(name, p.serve, w, r)
	})
}

// writeDetail writes an error response of FastAPI.
func writeDetail(w http.ResponseWriter, status int, detail string) {
	standalone.WriteJSON(w, status, map[string]string{"detail": detail})
}

func writeError(w http.ResponseWriter, err error) {
	e := openai.ErrorOf(err)
	standalone.WriteBytes(w, e.Status, e.AppendJSON(nil))
}

// onlyJSON rejects requests without the content type application/json.
func onlyJSON(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || kind != "application/json" {
			writeError(w, &openai.Error{
				Status: http.StatusBadRequest, Type: "Bad Request",
				Message: fmt.Sprintf("Content-Type is %.100q, must be application/json", r.Header.Get("Content-Type")),
			})
			return
		}
		next(w, r)
	}
}

// countLoad counts the requests in flight.
func (s *Server) countLoad(next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.load.Add(1)
		defer s.load.Add(-1)
		next(w, r)
	}
}

func serveNothing(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Length", "0")
	w.WriteHeader(http.StatusOK)
}

func (s *Server) serveVersion(w http.ResponseWriter, _ *http.Request) {
	standalone.WriteJSON(w, http.StatusOK, map[string]string{"version": s.Options.Version})
}

// KVConfig is vLLM's configuration of KV events, in --kv-events-config and at /kv_event_sources.
type KVConfig struct {
	Enable    bool    `json:"enable_kv_cache_events"`
	Publisher *string `json:"publisher"`
	Endpoint  string  `json:"endpoint"`
	Replay    *string `json:"replay_endpoint"`
	Buffer    int     `json:"buffer_steps"`
	HighWater int     `json:"hwm"`
	Queue     int     `json:"max_queue_size"`
	Topic     string  `json:"topic"`
}

// serveSources returns the sockets of KV events by rank.
func (s *Server) serveSources(w http.ResponseWriter, _ *http.Request) {
	all, publisher := map[string]KVConfig{}, "zmq"
	if o := s.Options.Engine.KVSockets; o != nil {
		one := KVConfig{true, &publisher, o.Events, nil, o.BufferSteps, o.HighWater, o.QueueEvents, o.Topic}
		if o.Replay != "" {
			one.Replay = &o.Replay
		}
		all["0"] = one
	}
	standalone.WriteJSON(w, http.StatusOK, all)
}

func (s *Server) serveLoad(w http.ResponseWriter, _ *http.Request) {
	standalone.WriteJSON(w, http.StatusOK, map[string]int64{"server_load": s.load.Load()})
}

// permission is vLLM's permission entry of a model.
type permission struct {
	ID       string  `json:"id"`
	Object   string  `json:"object"`
	Created  int64   `json:"created"`
	Engine   bool    `json:"allow_create_engine"`
	Sampling bool    `json:"allow_sampling"`
	LogProbs bool    `json:"allow_logprobs"`
	Search   bool    `json:"allow_search_indices"`
	View     bool    `json:"allow_view"`
	Tune     bool    `json:"allow_fine_tuning"`
	Org      string  `json:"organization"`
	Group    *string `json:"group"`
	Blocking bool    `json:"is_blocking"`
}

// model is a model in the response of /v1/models.
type model struct {
	ID         string       `json:"id"`
	Object     string       `json:"object"`
	Created    int64        `json:"created"`
	Owner      string       `json:"owned_by"`
	Root       string       `json:"root"`
	Parent     *string      `json:"parent"`
	Longest    *int         `json:"max_model_len"`
	Permission []permission `json:"permission"`
}

func (s *Server) serveModels(w http.ResponseWriter, _ *http.Request) {
	o, created := &s.Options, s.Served.Since.Unix()
	may := permission{ID: "modelperm-" + s.id, Object: "model_permission", Created: created, Sampling: true, LogProbs: true, View: true, Org: "*"}
	list := struct {
		Object string  `json:"object"`
		Data   []model `json:"data"`
	}{Object: "list"}
	for _, name := range append([]string{o.Engine.Model}, o.Aliases...) {
		list.Data = append(list.Data, model{name, "model", created, "vllm", o.Engine.Model, nil, &o.Engine.ContextLength, []permission{may}})
	}
	for _, name := range s.adapters.Names() {
		list.Data = append(list.Data, model{name, "model", created, "vllm", name, &o.Engine.Model, nil, []permission{may}})
	}
	standalone.WriteJSON(w, http.StatusOK, list)
}

// knows reports whether a model is served. If a model is not served, knows writes an error response.
func (s *Server) knows(w http.ResponseWriter, name string) bool {
	_, ok := s.Find(name)
	if !ok {
		writeError(w, openai.UnknownModel(name, slices.Concat([]string{s.Served.Name}, s.Options.Aliases, s.adapters.Names())))
	}
	return ok
}

func (s *Server) serveTokenize(w http.ResponseWriter, r *http.Request) {
	body, err := standalone.ReadBody(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	t, err := openai.ParseTokenize(body, s.Options.Tokenize)
	if err != nil {
		writeError(w, err)
		return
	}
	if !s.knows(w, t.Model) {
		return
	}
	standalone.WriteJSON(w, http.StatusOK, struct {
		Count   int      `json:"count"`
		Longest int      `json:"max_model_len"`
		Tokens  []uint32 `json:"tokens"`
		Texts   []string `json:"token_strs"`
	}{len(t.Tokens), s.Options.Engine.ContextLength, t.Tokens, t.Texts()})
}

func (s *Server) serveDetokenize(w http.ResponseWriter, r *http.Request) {
	body, err := standalone.ReadBody(w, r)
	if err != nil {
		writeError(w, err)
		return
	}
	d, err := openai.ParseDetokenize(body)
	if err != nil {
		writeError(w, err)
		return
	}
	if s.knows(w, d.Model) {
		standalone.WriteJSON(w, http.StatusOK, map[string]string{"prompt": openai.Detokenize(d.Tokens)})
	}
}
