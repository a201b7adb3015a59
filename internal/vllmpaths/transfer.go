package vllmpaths

import (
	"bytes"
	"net/http"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
)

// Transfer answers requests with kv_transfer_params like vLLM's NIXL connector. Transfer transfers no blocks.
type Transfer struct {
	Engine      string // id of the engine
	Host        string
	Port        int // port of the side channel; the server does not listen there
	TP          int
	BlockTokens int
}

// CheckTransfer returns an error for an invalid vLLM configuration of a KV connector. An empty configuration is
// valid.
func CheckTransfer(config string) error {
	var c struct {
		Connector string `json:"kv_connector"`
	}
	if config == "" {
		return nil
	}
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return err
	}
	if c.Connector != "NixlConnector" {
		return excerpt.Errorf("kv_connector is %q, must be NixlConnector", c.Connector)
	}
	return nil
}

// NewTransfer returns the connector of server i of a fleet. NewTransfer returns nil for an empty configuration.
func NewTransfer(config, host string, i int) *Transfer {
	if config == "" {
		return nil
	}
	return &Transfer{Engine: newID(), Host: host, Port: 5600 + i, TP: 1, BlockTokens: 16}
}

// transferParams are the parameters from a prefill worker for a decode worker, with the keys of vLLM 0.33.
type transferParams struct {
	Prefill    bool     `json:"do_remote_prefill"`
	Decode     bool     `json:"do_remote_decode"`
	Blocks     [][]int  `json:"remote_block_ids"`
	Engine     string   `json:"remote_engine_id"`
	Request    string   `json:"remote_request_id"`
	Host       string   `json:"remote_host"`
	Port       int      `json:"remote_port"`
	TP         int      `json:"tp_size"`
	DCP        int      `json:"dcp_size"`
	PP         int      `json:"pp_size"`
	Tokens     int      `json:"remote_num_tokens"`
	Expires    *float64 `json:"remote_blocks_expiry_time"`
	Generation int      `json:"remote_registration_generation"`
	Mode       string   `json:"transfer_mode"`
}

// Wrap returns next with support for kv_transfer_params. Answers to requests with do_remote_decode that are not
// streamed include parameters for the decode worker. Requests with do_remote_prefill must name the remote worker.
func (t *Transfer) Wrap(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !strings.HasSuffix(r.URL.Path, "/completions") {
			next.ServeHTTP(w, r)
			return
		}
		body, ok := readBody(w, r)
		if !ok {
			return
		}
		r = withBody(r, r.URL.Path, body)
		var q struct {
			Params json.RawMessage `json:"kv_transfer_params"`
			Stream bool            `json:"stream"`
		}
		if !bytes.Contains(body, []byte(`"kv_transfer_params"`)) || json.Unmarshal(body, &q) != nil || len(q.Params) == 0 || string(q.Params) == "null" {
			next.ServeHTTP(w, r)
			return
		}
		var p transferParams
		if err := json.Unmarshal(q.Params, &p); err != nil {
			refuseValue(w, "kv_transfer_params", "kv_transfer_params: "+err.Error())
			return
		}
		switch {
		case p.Prefill && (p.Engine == "" || p.Request == "" || p.Host == "" || p.Port == 0):
			refuseValue(w, "kv_transfer_params", "kv_transfer_params: do_remote_prefill requires remote_engine_id, remote_request_id, remote_host and remote_port")
		case !p.Decode, q.Stream:
			next.ServeHTTP(w, r)
		default:
			t.serveDecode(w, r, next)
		}
	})
}

// serveDecode writes an answer with the parameters for the decode worker.
func (t *Transfer) serveDecode(w http.ResponseWriter, r *http.Request, next http.Handler) {
	k := newKept()
	next.ServeHTTP(k, r)
	if k.status == http.StatusOK {
		whole := t.addParams(k.body.Bytes())
		k.body.Reset()
		k.body.Write(whole)
		k.header.Del("Content-Length")
	}
	k.send(w)
}

// addParams adds the parameters to an answer.
func (t *Transfer) addParams(data []byte) []byte {
	var doc map[string]json.RawMessage
	var ends struct {
		ID      string `json:"id"`
		Choices []struct {
			Reason *string `json:"finish_reason"`
		} `json:"choices"`
		Usage *usage `json:"usage"`
	}
	if json.Unmarshal(data, &doc) != nil || json.Unmarshal(data, &ends) != nil || len(ends.Choices) == 0 {
		return data
	}
	if why := ends.Choices[0].Reason; why == nil || *why != "length" && *why != "stop" && *why != "tool_calls" {
		return data
	}
	tokens := 0
	if ends.Usage != nil {
		tokens = ends.Usage.Total - 1 // the last token is not computed
	}
	p := transferParams{
		Prefill: true, Blocks: [][]int{{}}, Engine: t.Engine, Request: ends.ID, Host: t.Host, Port: t.Port, TP: t.TP, DCP: 1, PP: 1, Tokens: tokens, Mode: "pull",
	}
	for i := range (tokens + t.BlockTokens - 1) / t.BlockTokens {
		p.Blocks[0] = append(p.Blocks[0], i+1)
	}
	added, err := json.MarshalUnescaped(p)
	if err != nil {
		panic(err) // encoding numbers and texts cannot fail
	}
	doc["kv_transfer_params"] = added
	out, err := json.MarshalUnescaped(doc)
	if err != nil {
		panic(err) // encoding decoded raw values cannot fail
	}
	return out
}
