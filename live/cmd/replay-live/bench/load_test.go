package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/replay-llm/replay/internal/excerpt"
)

// body returns the body of a completion request.
func (s *server) body(tokens int, stream bool) string {
	return fmt.Sprintf(`{"model":%q,"prompt":"once upon a time","max_tokens":%d,"min_tokens":%[2]d,"ignore_eos":true,"return_token_ids":%t,"stream":%t}`,
		s.model, tokens, stream && s.name == stampRole, stream)
}

// post sends a request, and returns an error if the status is not OK.
func (s *server) post(ctx context.Context, c *http.Client, body string) (*http.Response, error) {
	q, err := http.NewRequestWithContext(ctx, http.MethodPost, s.url+"/v1/completions", strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	q.Header.Set("Content-Type", "application/json")
	r, err := c.Do(q)
	if err != nil {
		return nil, err
	}
	if r.StatusCode != http.StatusOK {
		text, _ := io.ReadAll(io.LimitReader(r.Body, 300))
		r.Body.Close()
		return nil, excerpt.Errorf("status %d: %s", r.StatusCode, text)
	}
	return r, nil
}

// atOnce calls do the given number of times, width calls at once, and returns the first error.
func atOnce(ctx context.Context, times, width int, do func(ctx context.Context, c *http.Client) error) error {
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: width, DisableCompression: true}}
	defer client.CloseIdleConnections()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var left atomic.Int64
	left.Store(int64(times))
	var wg sync.WaitGroup
	for range width {
		wg.Go(func() {
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				if err := do(ctx, client); err != nil {
					cancel(err)
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// stream reads concurrent streams, and returns the total number of their tokens.
func (s *server) stream(ctx context.Context, streams, tokens int) (int, error) {
	var all atomic.Int64
	body := s.body(tokens, true)
	err := atOnce(ctx, streams, streams, func(ctx context.Context, c *http.Client) error {
		n, err := s.readEvents(ctx, c, body, func([]byte) {})
		if err == nil && n < tokens {
			err = fmt.Errorf("%d events for %d tokens", n, tokens)
		}
		all.Add(int64(tokens))
		return err
	})
	return int(all.Load()), err
}

// readEvents requests a stream, and calls take with the data of each event that is a token.
func (s *server) readEvents(ctx context.Context, c *http.Client, body string, take func(data []byte)) (n int, err error) {
	r, err := s.post(ctx, c, body)
	if err != nil {
		return 0, err
	}
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	for lines.Scan() {
		if data, ok := bytes.CutPrefix(lines.Bytes(), []byte("data: {")); ok {
			n++
			take(data)
		}
	}
	return n, lines.Err()
}

// unary makes requests that are not streamed, width at once.
func (s *server) unary(ctx context.Context, requests, width int) error {
	body := s.body(4, false)
	return atOnce(ctx, requests, width, func(ctx context.Context, c *http.Client) error {
		r, err := s.post(ctx, c, body)
		if err != nil {
			return err
		}
		defer r.Body.Close()
		_, err = io.Copy(io.Discard, r.Body)
		return err
	})
}
