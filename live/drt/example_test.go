package drt_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"

	"github.com/replay-llm/replay/live/cancel"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/drt/stack"
)

// A worker counts, and a caller reads its items.
func Example() {
	ctx := context.Background()
	servers, err := stack.Start(ctx, stack.Options{}) // drt.FromEnv(os.Getenv) configures existing servers instead
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = servers.Stop() }()
	config := drt.Config{
		Etcd: drt.EtcdConfig{Endpoints: []string{servers.EtcdURL()}}, NATS: drt.NATSConfig{URL: servers.NATSURL()}, ResponseHost: "127.0.0.1",
	}

	worker, err := drt.Connect(ctx, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer worker.Close(ctx)
	served, _ := worker.Endpoint("dynamo", "backend", "count")
	serving, err := served.Serve(count, drt.ServeOptions{})
	if err == nil {
		err = serving.Register(ctx)
	}
	if err != nil {
		fmt.Println(err)
		return
	}

	caller, err := drt.Connect(ctx, config)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer caller.Close(ctx)
	called, _ := caller.Endpoint("dynamo", "backend", "count")
	client, err := called.Client(ctx, drt.ClientOptions{})
	if err == nil {
		_, err = client.WaitForInstances(ctx)
	}
	if err != nil {
		fmt.Println(err)
		return
	}
	stream, err := client.Generate(ctx, cancel.New(""), &drt.Request{Payload: json.RawMessage(`{"to":3}`)}, drt.RoundRobin())
	if err != nil {
		fmt.Println(err)
		return
	}
	for item, err := range stream.Items() {
		fmt.Printf("%s %v\n", item.Data, err)
	}
	// Output:
	// 1 <nil>
	// 2 <nil>
	// 3 <nil>
}

func count(_ context.Context, rc cancel.Context, rq *drt.Request) (iter.Seq2[drt.Item, error], error) {
	var in struct{ To int }
	if err := json.Unmarshal(rq.Payload, &in); err != nil {
		return nil, err
	}
	return func(yield func(drt.Item, error) bool) {
		for i := 1; i <= in.To && !rc.IsStopped(); i++ {
			if !yield(drt.Item{Data: fmt.Append(nil, i), Last: i == in.To}, nil) {
				return
			}
		}
	}, nil
}
