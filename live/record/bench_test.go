//go:build unix

package record_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/replay-llm/replay/live/measure"
	"github.com/replay-llm/replay/live/record"
	"github.com/replay-llm/replay/replay/collector"
)

// BenchmarkFirstByte measures the delay of the first byte by the proxy. BenchmarkFirstByte measures with no other
// request and with 5,000 streams that receive a piece every two seconds. BenchmarkFirstByte requires an idle machine,
// since client, proxy and server are in this process.
func BenchmarkFirstByte(b *testing.B) {
	for _, streams := range []int{0, 5000} {
		b.Run(fmt.Sprintf("streams=%d", streams), func(b *testing.B) {
			streams := limitStreams(b, streams)
			r := newRig(b, record.Options{}, measure.Options{}, answer)
			defer r.stop()
			prompt := strings.Repeat("word ", 4000)
			over := make(chan struct{})
			var all sync.WaitGroup
			for range streams {
				all.Go(func() {
					r.readFirst(b, r.url, `{"prompt":"a","stream":true,"max_tokens":1000000,"gap":2000}`, func(body io.ReadCloser) {
						go func() { <-over; body.Close() }()
						_, _ = io.Copy(io.Discard, body)
					})
				})
			}
			body := fmt.Sprintf(`{"prompt":"%s","stream":true,"max_tokens":1}`, prompt)
			whole := func(body io.ReadCloser) { _, _ = io.Copy(io.Discard, body) }
			time.Sleep(time.Duration(streams) * time.Millisecond)
			for b.Loop() {
				var direct, by []float64
				for i := range 1000 {
					d, p := r.readFirst(b, r.direct, body, whole), r.readFirst(b, r.url, body, whole)
					if i >= 100 {
						direct, by = append(direct, d), append(by, p)
					}
				}
				d, p := collector.Describe(direct), collector.Describe(by)
				b.ReportMetric(p.Median-d.Median, "added-p50-ms")
				b.ReportMetric(p.P99-d.P99, "added-p99-ms")
				b.ReportMetric(d.Median, "direct-p50-ms")
				b.ReportMetric(float64(streams), "streams")
			}
			close(over)
			all.Wait()
		})
	}
}

// limitStreams returns the number of streams that this process can open, at most n. Each stream needs four files, for
// both ends of two connections.
func limitStreams(b *testing.B, n int) int {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		b.Fatal(err)
	}
	return min(n, int(min(limit.Cur, 1<<20)-500)/4)
}

// readFirst returns the time to the first byte of an answer, in ms.
func (r *rig) readFirst(b *testing.B, at, body string, rest func(io.ReadCloser)) float64 {
	began := time.Now()
	q, err := http.NewRequestWithContext(b.Context(), http.MethodPost, at+"/v1/completions", strings.NewReader(body))
	if err != nil {
		b.Error(err)
		return 0
	}
	response, err := r.client.Do(q)
	if err != nil {
		b.Error(err)
		return 0
	}
	defer response.Body.Close()
	var one [1]byte
	if _, err := response.Body.Read(one[:]); err != nil {
		b.Error(err)
	}
	took := time.Since(began).Seconds() * 1000
	rest(response.Body)
	return took
}
