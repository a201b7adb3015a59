package cluster

import (
	"maps"
	"os"
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/cmd/cli"
	"github.com/replay-llm/replay/internal/cmd/options"
	"github.com/replay-llm/replay/internal/credential"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/live/drt"
	"github.com/replay-llm/replay/live/engine"
	"github.com/replay-llm/replay/live/link"
)

// Config returns the configuration from flags and environment.
func Config(f *options.RuntimeFlags) (drt.Config, error) {
	for name, urls := range map[string]string{"etcd": f.Etcd, "nats": f.Nats} {
		if err := checkURLs(name, urls); err != nil {
			return drt.Config{}, err
		}
	}
	c, err := drt.FromEnv(linkEnv(f))
	if err != nil {
		return c, cli.Usagef("%v", err)
	}
	setGiven(&c.NATS.URL, f.Nats)
	setGiven(&c.Etcd.Username, f.EtcdUser)
	setGiven(&c.Etcd.CA, f.EtcdCA)
	setGiven(&c.Etcd.Cert, f.EtcdCert)
	setGiven(&c.Etcd.Key, f.EtcdKey)
	setGiven(&c.NATS.Username, f.NatsUser)
	setGiven(&c.NATS.NKey, f.NatsNKey)
	setGiven(&c.NATS.Credentials, f.NatsCreds)
	setGiven(&c.NATS.CA, f.NatsCA)
	setGiven(&c.NATS.Cert, f.NatsCert)
	setGiven(&c.NATS.Key, f.NatsKey)
	setGiven(&c.Discovery, drt.Discovery(f.Discovery))
	setGiven(&c.Plane, drt.RequestPlane(f.Plane))
	setGiven(&c.Layout, drt.Layout(f.Layout))
	if f.Etcd != "" {
		c.Etcd.Endpoints = strings.Split(f.Etcd, ",")
	}
	if f.ResponsePort != 0 {
		c.ResponsePort = f.ResponsePort
	}
	if f.Lease <= 0 || f.Connect <= 0 || f.CallHome <= 0 || f.SlowClient <= 0 {
		return c, cli.Usagef("--lease=%v --connect-timeout=%v --call-home-timeout=%v --slow-client-timeout=%v: must be above 0", f.Lease, f.Connect, f.CallHome, f.SlowClient)
	}
	c.Lease, c.Connect, c.CallHome, c.SlowClient = f.Lease, f.Connect, f.CallHome, f.SlowClient
	if c.Static, err = staticInstances(f, c.Discovery); err != nil {
		return c, err
	}
	if c.Links, err = link.New(c.Link); err != nil {
		return c, cli.Usagef("%v", err)
	}
	if err := c.Check(); err != nil {
		return c, cli.Usagef("%v", err)
	}
	return c, nil
}

// checkURLs rejects URLs with a user on the command line, because other users can read command lines.
func checkURLs(flag, urls string) error {
	if credential.Hide(urls) == urls {
		return nil
	}
	return cli.Usagef("--%s=%s: other users can read command lines, use the URL with its password in $%s", flag, credential.Hide(urls),
		map[string]string{"etcd": "ETCD_ENDPOINTS", "nats": "NATS_SERVER"}[flag])
}

// linkEnv returns a getenv function in which the flags of links override the environment.
func linkEnv(f *options.RuntimeFlags) func(string) string {
	given := map[string]string{
		"REPLAY_LINK_CERT": f.LinkCert, "REPLAY_LINK_KEY": f.LinkKey, "REPLAY_LINK_CA": f.LinkCA, "REPLAY_LINK_NAME": f.LinkName,
		"REPLAY_ALLOW_DIAL": f.AllowDial, "DYN_TCP_RESPONSE_STREAM_HOST": f.ResponseHost,
	}
	if f.Insecure {
		given["REPLAY_LINK_INSECURE"] = "1"
	}
	return func(name string) string {
		if v := given[name]; v != "" {
			return v
		}
		return os.Getenv(name)
	}
}

// staticInstances returns the instances of the flag --static.
func staticInstances(f *options.RuntimeFlags, d drt.Discovery) (map[string][]drt.StaticInstance, error) {
	if f.Static == "" {
		return nil, nil
	}
	if d != drt.Static {
		return nil, cli.Usagef("--static requires --discovery static")
	}
	all, err := drt.ParseStatic(f.Static)
	if err != nil {
		return nil, cli.Usagef("--static: %v", err)
	}
	return all, nil
}

// GiveCards sets the model cards of the workers of static discovery, at the endpoints names and those of --static.
// Static discovery has no other source of cards. Workers of a component "prefill" prefill; the other workers of their
// namespace decode.
func GiveCards(c *drt.Config, model string, names ...string) error {
	if c.Discovery != drt.Static {
		return nil
	}
	names = append(names, slices.Collect(maps.Keys(c.Static))...)
	halves := make(map[string]bool) // namespaces with prefill workers
	for _, name := range names {
		if parts := strings.Split(name, "."); parts[1] == prefillComponent {
			halves[parts[0]] = true
		}
	}
	c.StaticCards = make(map[string]json.RawMessage)
	for _, name := range names {
		parts, mode := strings.Split(name, "."), engine.Aggregated
		switch {
		case parts[1] == prefillComponent:
			mode = engine.Prefill
		case halves[parts[0]]:
			mode = engine.Decode
		}
		card, err := json.Marshal(engine.ModelCard{Name: model, Model: model, WorkerType: mode, ModelType: []engine.EndpointType{engine.Chat, engine.Completions}})
		if err != nil {
			return err
		}
		c.StaticCards[name] = card
	}
	return nil
}

// prefillComponent is the default component of prefill workers.
const prefillComponent = "prefill"

// OwnInstance sets the id of a worker of static discovery from --static, which must have exactly one instance at its
// endpoint.
func OwnInstance(c *drt.Config, name string) error {
	own := c.Static[name]
	switch {
	case c.Discovery != drt.Static || len(c.Static) == 0:
		return nil
	case len(own) != 1:
		return cli.Usagef("--static: %d addresses of %s, expected one, this worker's own", len(own), name)
	}
	c.WorkerID = own[0].ID
	return nil
}

// setGiven sets a field to value, if value is not empty.
func setGiven[T ~string](field *T, value T) {
	if value != "" {
		*field = value
	}
}
