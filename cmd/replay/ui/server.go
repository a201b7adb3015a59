package ui

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"regexp"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/explore"
	"github.com/replay-llm/replay/internal/json"
)

// mostBody is the maximum size of a question, in bytes.
const mostBody = 1 << 20

// site answers one browser. The site serves only the page and the requests of the page.
type site struct {
	session *explore.Session
	host    string // HOST:PORT that the browser must name
	token   string // the first part of every path
	page    []byte
	policy  string // of the content of the page
	left    int64  // free memory for traces, in bytes
	asked   chan struct{}
}

// newSite returns the site at host. The paths of the site begin with token, or with a random token if token is "".
func newSite(session *explore.Session, host, token string) *site {
	if token == "" {
		token = rand.Text()
	}
	return &site{session: session, host: host, token: token, left: 2 * explore.MostText, asked: make(chan struct{}, 1)}
}

// show sets the page. A content security policy allows only its own scripts.
func (s *site) show(page []byte) {
	var hashes []string
	for _, m := range regexp.MustCompile(`(?s)<script>(.*?)</script>`).FindAllSubmatch(page, -1) {
		sum := sha256.Sum256(m[1])
		hashes = append(hashes, "'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'")
	}
	s.page = page
	s.policy = "default-src 'none'; script-src " + strings.Join(hashes, " ") +
		"; style-src 'unsafe-inline'; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}

// address returns the address of the page.
func (s *site) address() string { return "http://" + s.host + "/" + s.token + "/" }

// ServeHTTP answers a request that opens the page or comes from the page.
func (s *site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("Content-Security-Policy", s.policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Cache-Control", "no-store")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	token, name, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	origin, from := r.Header.Get("Origin"), r.Header.Get("Sec-Fetch-Site")
	switch {
	case r.Host != s.host:
		http.Error(w, "another host", http.StatusMisdirectedRequest)
	case origin != "" && origin != "http://"+s.host:
		http.Error(w, "another origin", http.StatusForbidden)
	case name != "" && from != "" && from != "same-origin":
		http.Error(w, "another site", http.StatusForbidden)
	case subtle.ConstantTimeCompare([]byte(token), []byte(s.token)) != 1:
		http.Error(w, "must be the address that replay ui printed", http.StatusForbidden)
	case name == "" && r.Method == http.MethodGet:
		h.Set("Content-Type", "text/html; charset=utf-8")
		w.Write(s.page)
	case !strings.HasPrefix(name, "api/"):
		http.NotFound(w, r)
	case r.Method != http.MethodPost:
		http.Error(w, "must be POST", http.StatusMethodNotAllowed)
	default:
		s.answer(w, r, strings.TrimPrefix(name, "api/"))
	}
}

// answer answers a question of the page as JSON.
func (s *site) answer(w http.ResponseWriter, r *http.Request, name string) {
	var found any
	var err error
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); name == "upload" && kind == "application/octet-stream" {
		found, err = s.upload(w, r)
	} else if kind != "application/json" {
		http.Error(w, "must be JSON", http.StatusUnsupportedMediaType)
		return
	} else if name == "plan" {
		s.answerPlan(w, r)
		return
	} else {
		var q explore.Question
		if err = readQuestion(w, r, &q); err == nil {
			found, err = s.session.Ask(r.Context(), name, &q)
		}
	}
	status := http.StatusOK
	switch large := new(http.MaxBytesError); {
	case errors.As(err, &large):
		status, found = http.StatusRequestEntityTooLarge, explore.Refusal{Error: fmt.Sprintf("more than %d MiB, which is all that is taken", large.Limit>>20)}
	case errors.Is(err, context.Canceled):
		found = explore.Refusal{Error: "a newer run was asked for"}
	case errors.Is(err, errors.ErrUnsupported):
		status, found = http.StatusNotFound, explore.Refusal{Error: err.Error()}
	case err != nil: // an answer, too: of other codes browsers complain on their consoles
		found = explore.Refuse(err)
	}
	text, err := json.Marshal(found)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	w.Write(text)
}

// readQuestion reads the body of a request.
func readQuestion(w http.ResponseWriter, r *http.Request, q any) error {
	in := json.NewDecoder(http.MaxBytesReader(w, r.Body, mostBody))
	in.DisallowUnknownFields()
	return in.Decode(q)
}

// upload stores the body of a request as a trace in memory, one upload at a time.
func (s *site) upload(w http.ResponseWriter, r *http.Request) (any, error) {
	select {
	case s.asked <- struct{}{}:
		defer func() { <-s.asked }()
	case <-r.Context().Done():
		return nil, r.Context().Err()
	}
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, min(explore.MostText, s.left)))
	if err != nil {
		return nil, err
	}
	if err := s.session.AddText(r.Context(), r.URL.Query().Get("name"), text); err != nil {
		return nil, err
	}
	s.left -= int64(len(text))
	return s.session.Traces(), nil
}
