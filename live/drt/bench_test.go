package drt_test

import (
	"encoding/json"
	"testing"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/stack"
)

// BenchmarkCall measures a call with 1 item and a call with 1000 items.
func BenchmarkCall(b *testing.B) {
	s, err := stack.Start(b.Context(), stack.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer func() {
		if err := s.Stop(); err != nil {
			b.Error(err)
		}
	}()
	for _, plane := range []drt.RequestPlane{drt.NATS, drt.TCP} {
		config := drt.Config{
			Etcd: drt.EtcdConfig{Endpoints: []string{s.EtcdURL()}}, NATS: drt.NATSConfig{URL: s.NATSURL()},
			Plane: plane, ResponseHost: "127.0.0.1",
		}
		rt, err := drt.Connect(b.Context(), config)
		if err != nil {
			b.Fatal(err)
		}
		e, err := rt.Endpoint("bench", "backend", "generate")
		if err != nil {
			b.Fatal(err)
		}
		serving, err := e.Serve(counter, drt.ServeOptions{})
		if err == nil {
			err = serving.Register(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
		c, err := e.Client(b.Context(), drt.ClientOptions{})
		if err == nil {
			_, err = c.WaitForInstances(b.Context())
		}
		if err != nil {
			b.Fatal(err)
		}
		for name, payload := range map[string]string{"items=1": `{}`, "items=1000": `{"n":999}`} {
			b.Run("plane="+string(plane)+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					s, err := c.Generate(b.Context(), cancel.New(""), &drt.Request{Payload: json.RawMessage(payload)}, drt.RoundRobin())
					if err != nil {
						b.Fatal(err)
					}
					if _, err := collect(s); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
		if err := rt.Close(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
}
