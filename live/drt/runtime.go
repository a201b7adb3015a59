// Package drt is the distributed runtime: names of services (Namespace, Component, Endpoint), instances with leases,
// and calls that return streams.
//
// A worker serves an endpoint and registers it:
//
//	rt, err := drt.Connect(ctx, config)
//	ep, err := rt.Endpoint("dynamo", "backend", "generate")
//	serving, err := ep.Serve(handler, drt.ServeOptions{})
//	err = serving.Register(ctx)
//
// A caller creates a client and calls:
//
//	client, err := ep.Client(ctx, drt.ClientOptions{})
//	stream, err := client.Generate(ctx, cancel.New(""), &drt.Request{Payload: json}, drt.RoundRobin())
//	for item, err := range stream.Items() { … }
//
// A request is sent over the request plane (NATS), and its worker opens a TCP connection to the caller for the
// response. Payloads and items are JSON that this package does not parse.
//
// Read runtime.go, config.go and item.go (interface), instance.go (keys and subjects), store.go with etcd.go,
// watch.go, contact.go, nats.go and tcp.go (transports), lease.go, then serve.go, respond.go and line.go (worker),
// client.go, callers.go and stream.go (caller).
package drt

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/replay-llm/replay/internal/bell"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/link"
)

// Runtime connects a process to a cluster. A process may have several runtimes.
type Runtime struct {
	config Config
	log    *slog.Logger
	store  *etcdStore // nil with static discovery
	plane  *tcpPlane
	homes  *callers

	ctx    context.Context // context of background work
	cancel context.CancelFunc
	done   chan struct{} // closed when the lease is lost
	behind sync.WaitGroup

	id uint64 // set once, by Connect

	leasing context.Context // ends at the first Leave; no key is registered after it
	unlease context.CancelFunc
	keeping sync.WaitGroup // waits for keepLease

	mu       sync.Mutex
	lost     error
	closed   bool
	left     chan struct{} // closed when the lease is revoked; nil before Leave
	leaving  time.Time     // time of the call of Leave
	servings []*Serving
	known    map[Name]*instances
	cards    map[Name]json.RawMessage // registered cards by endpoint
	guarded  map[string]bool          // keys of this runtime that are watched
	poke     bell.Bell                // asks to check the lease now

	announced map[string]json.RawMessage // announced values by key
	lines     map[callerID]*line
}

// Connect connects to the servers of the configuration, and takes a lease unless CallsOnly is set. Errors
// (CannotConnect) name the server that cannot be reached.
func Connect(ctx context.Context, config Config) (*Runtime, error) {
	config, err := config.withDefaults()
	if err != nil {
		return nil, err
	}
	rt := &Runtime{
		config: config, log: config.Log, done: make(chan struct{}), poke: bell.New(),
		known: make(map[Name]*instances), cards: make(map[Name]json.RawMessage), guarded: make(map[string]bool),
		announced: make(map[string]json.RawMessage), lines: make(map[callerID]*line),
	}
	rt.homes = newCallers(&rt.config)
	rt.ctx, rt.cancel = context.WithCancel(context.WithoutCancel(ctx))
	rt.leasing, rt.unlease = context.WithCancel(rt.ctx)
	reach, release := context.WithTimeoutCause(ctx, config.Connect, fmt.Errorf("not within %v", config.Connect))
	defer release()
	if err := rt.connectAll(reach); err != nil {
		rt.disconnectAll()
		return nil, err
	}
	return rt, nil
}

func (rt *Runtime) connectAll(ctx context.Context) (err error) {
	nats, err := connectNATS(ctx, &rt.config)
	if err != nil {
		return err
	}
	rt.plane = newTCPPlane(&rt.config, nats)
	if rt.config.Discovery == Static {
		rt.id = cmp.Or(rt.config.WorkerID, max(1, rand.Uint64()>>1))
		return nil
	}
	if rt.store, err = connectEtcd(ctx, rt.ctx, &rt.config); err != nil {
		return err
	}
	rt.behind.Go(func() { rt.store.contact.follow(rt.ctx, rt.poke.Ring) })
	if rt.config.CallsOnly {
		return nil
	}
	return rt.takeLease(ctx)
}

// ID returns the id of this runtime's instances, which is the id of its lease and never changes. The id is 0 with
// CallsOnly.
func (rt *Runtime) ID() uint64 { return rt.id }

// StaleSince returns since when the known instances and cards may be out of date, because etcd does not answer. The
// runtime continues to use these instances and cards. StaleSince returns zero while the known instances and cards are
// up to date.
func (rt *Runtime) StaleSince() time.Time {
	if rt.store == nil {
		return time.Time{}
	}
	return rt.store.contact.staleSince()
}

// Links returns the options of connections between workers and callers.
func (rt *Runtime) Links() *link.Links { return rt.config.Links }

// Done returns a channel that is closed when the lease is lost and the process should end. From then on endpoints
// refuse new requests.
func (rt *Runtime) Done() <-chan struct{} { return rt.done }

// Err returns an ErrLeaseLost after Done is closed, and nil before.
func (rt *Runtime) Err() error {
	rt.mu.Lock()
	defer rt.mu.Unlock()
	return rt.lost
}

// Endpoint is an endpoint that any number of instances serve.
type Endpoint struct {
	rt   *Runtime
	name Name
}

// Endpoint returns the endpoint of a component in a namespace. Names consist of letters a-z, digits, - and _.
func (rt *Runtime) Endpoint(namespace, component, endpoint string) (*Endpoint, error) {
	return &Endpoint{rt, Name{namespace, component, endpoint}}, errors.Join(
		checkName("namespace", namespace), checkName("component", component), checkName("endpoint", endpoint))
}

// ParseEndpoint returns the endpoint for a "namespace.component.endpoint" text.
func (rt *Runtime) ParseEndpoint(text string) (*Endpoint, error) {
	parts := strings.Split(text, ".")
	if len(parts) != 3 {
		return nil, excerpt.Errorf("endpoint %q: must be namespace.component.endpoint", text)
	}
	return rt.Endpoint(parts[0], parts[1], parts[2])
}

// Name returns the full name of the endpoint.
func (e *Endpoint) Name() Name { return e.name }

// transportOf returns the transport of the instance in layout l.
func (rt *Runtime) transportOf(l layout, name Name, id uint64) Transport {
	if rt.config.Plane == TCP {
		return Transport{Address: rt.plane.servedAddress() + "/" + tcpPath(name, id)}
	}
	return Transport{Subject: l.subjectOf(name, id)}
}

// newServing returns the data that the request plane needs to serve an instance.
func (rt *Runtime) newServing(name Name, id uint64, take func(message)) serving {
	s := serving{name: name, id: id, take: take}
	if rt.config.Discovery != Static {
		s.layouts = rt.config.Layout.layoutsToWrite()
		for _, l := range s.layouts {
			s.subjects = append(s.subjects, l.subjectOf(name, id))
		}
		return s
	}
	s.shared = true
	for _, one := range rt.config.Static[name.String()] {
		if one.ID == id || one.ID == 0 {
			s.subjects = append(s.subjects, one.Subject)
		}
	}
	if len(s.subjects) == 0 {
		s.subjects = []string{name.String()}
	}
	return s
}

// staticInstances returns the configured instances of an endpoint.
func (rt *Runtime) staticInstances(name Name) []Instance {
	var all []Instance
	for _, one := range rt.config.Static[name.String()] {
		all = append(all, Instance{Name: name, ID: one.ID, Transport: Transport{Subject: one.Subject}})
	}
	if len(all) == 0 {
		all = []Instance{{Name: name, Transport: Transport{Subject: name.String()}}}
	}
	sortByID(all)
	return all
}

// instancesOf returns the shared instances of an endpoint.
func (rt *Runtime) instancesOf(ctx context.Context, name Name) (*instances, error) {
	rt.mu.Lock()
	in := rt.known[name]
	rt.mu.Unlock()
	if in != nil {
		return in, nil
	}
	fresh, err := rt.watchInstances(ctx, name)
	if err != nil {
		return nil, err
	}
	rt.mu.Lock()
	defer rt.mu.Unlock()
	if in := rt.known[name]; in != nil {
		return in, ctx.Err() // a concurrent call stored its instances first
	}
	rt.known[name] = fresh
	return fresh, nil
}
