package drt

import (
	"cmp"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/replay-llm/replay/internal/credential"
	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
	"github.com/replay-llm/replay/internal/wire"
	"github.com/replay-llm/replay/live/link"
)

// Discovery is how callers find instances.
type Discovery string

// Values of Discovery.
const (
	Etcd   Discovery = "etcd"   // etcd keys under leases
	Static Discovery = "static" // configured addresses; no etcd, no lease
)

// RequestPlane is how requests reach workers.
type RequestPlane string

// Values of RequestPlane.
const (
	NATS RequestPlane = "nats"
	TCP  RequestPlane = "tcp" // directly to the worker, between peers of this implementation
)

// Layout selects the format of the keys and subjects that instances register. Keys and subjects of both formats are
// always read.
type Layout string

// Values of Layout.
const (
	Both Layout = "both"
	Seed Layout = "seed" // keys /services/{ns}/{component}/{endpoint}-{id}
	V1   Layout = "v1"   // keys v1/instances/{ns}/{component}/{endpoint}/{id}
)

// LeaseLoss is what a runtime does when its lease is lost.
type LeaseLoss string

// Values of LeaseLoss.
const (
	Exit       LeaseLoss = "exit"       // Done is closed, and endpoints refuse new requests
	Reregister LeaseLoss = "reregister" // requests are still served; the same keys are written again under the same id when etcd accepts them
)

// Config configures a runtime. The zero value of each field means its default. FromEnv reads the fields from the
// environment.
type Config struct {
	Discovery Discovery // the default is Etcd
	Plane     RequestPlane
	Layout    Layout    // the default is Both
	LeaseLoss LeaseLoss // the default is Exit
	CallsOnly bool      // serves nothing, takes no lease

	Etcd EtcdConfig
	NATS NATSConfig

	// Static lists the instances of endpoints by "namespace.component.endpoint", for Discovery Static. An endpoint
	// that is not listed uses its name as the subject, in a queue group.
	Static map[string][]StaticInstance
	// StaticCards are the model cards of endpoints by "namespace.component.endpoint", for Discovery Static.
	StaticCards map[string]json.RawMessage
	// WorkerID is the instance id if there is no lease; 0: random.
	WorkerID uint64

	// ResponseHost and ResponsePort are the address at which workers call home. ResponseHost is also the host at
	// which a worker of the TCP plane accepts requests. "": loopback; port 0: any port.
	ResponseHost string
	ResponsePort int

	MaxMessage int // bytes of the largest frame; default 32 MiB

	Lease        time.Duration // TTL of the lease; default 10 s, at least 2 s
	Connect      time.Duration // limit to connect to etcd and NATS at the start; default 10 s
	CallHome     time.Duration // limit from acknowledgement to call-home; default 10 s
	SlowClient   time.Duration // limit of a blocked write of a response, which is then killed; default 30 s
	StopDrain    time.Duration // limit for an engine's terminal item after stop; default 2 s
	Heartbeat    time.Duration // idle time after which a worker sends an empty frame; callers time out after 4.5 of these; default 10 s
	Inactivity   time.Duration // limit between two items, then ResponseTimeout; 0: no limit
	Inhibit      time.Duration // time before an instance that failed is tried again; default 5 s
	Tombstone    time.Duration // time during which calls to a removed instance fail at once; default 5 s
	Acknowledge  time.Duration // limit for a worker's acknowledgement; default 5 s
	ProgramLabel string        // version in $SRV.INFO, for example 1.2.3; default 0.0.0

	Link  link.Config // options of connections between workers and callers
	Links *link.Links // nil: made from Link

	Log *slog.Logger // nil: no log
}

// EtcdConfig is the address of etcd and its credentials.
type EtcdConfig struct {
	Endpoints          []string // the default is http://127.0.0.1:2379
	Username, Password string
	CA, Cert, Key      string // PEM files; any of them enables TLS
}

// NATSConfig is the address of NATS and its credentials.
type NATSConfig struct {
	URL                string // comma-separated; default nats://127.0.0.1:4222
	Username, Password string
	Token              string
	NKey               string // file with an NKey seed
	Credentials        string // file of a user's JWT and seed
	CA, Cert, Key      string // PEM files; any of them enables TLS
}

// StaticInstance is a configured instance.
type StaticInstance struct {
	ID      uint64 // 0: any worker of the queue group
	Subject string
}

// Check returns the first error in c, without connecting to any server.
func (c Config) Check() error {
	_, err := c.withDefaults()
	return err
}

// withDefaults returns c with its defaults, or the first error in it.
func (c Config) withDefaults() (Config, error) {
	c.Discovery = cmp.Or(c.Discovery, Etcd)
	c.Plane = cmp.Or(c.Plane, NATS)
	c.Layout = cmp.Or(c.Layout, Both)
	c.LeaseLoss = cmp.Or(c.LeaseLoss, Exit)
	c.NATS.URL = cmp.Or(c.NATS.URL, "nats://127.0.0.1:4222")
	c.MaxMessage = cmp.Or(c.MaxMessage, wire.DefaultLimit)
	c.Lease = cmp.Or(c.Lease, 10*time.Second)
	c.Connect = cmp.Or(c.Connect, 10*time.Second)
	c.CallHome = cmp.Or(c.CallHome, 10*time.Second)
	c.SlowClient = cmp.Or(c.SlowClient, 30*time.Second)
	c.StopDrain = cmp.Or(c.StopDrain, 2*time.Second)
	c.Heartbeat = cmp.Or(c.Heartbeat, 10*time.Second)
	c.Inhibit = cmp.Or(c.Inhibit, 5*time.Second)
	c.Tombstone = cmp.Or(c.Tombstone, 5*time.Second)
	c.Acknowledge = cmp.Or(c.Acknowledge, 5*time.Second)
	c.ProgramLabel = cmp.Or(c.ProgramLabel, "0.0.0")
	if len(c.Etcd.Endpoints) == 0 {
		c.Etcd.Endpoints = []string{"http://127.0.0.1:2379"}
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	c.ResponseHost = cmp.Or(c.ResponseHost, "127.0.0.1")
	if err := c.splitURLs(); err != nil {
		return c, err
	}
	if c.Links == nil {
		l, err := link.New(c.Link)
		if err != nil {
			return c, err
		}
		c.Links = l
	}
	return c, c.checkFields()
}

// splitURLs moves users and passwords from URLs to separate fields, because errors and logs contain the URLs. A user
// or password that is set separately takes precedence.
func (c *Config) splitURLs() error {
	url, who, err := credential.Split(c.NATS.URL)
	if err != nil {
		return fmt.Errorf("URL of NATS: %w", err)
	}
	c.NATS.URL = url
	switch {
	case c.NATS.Username != "" || c.NATS.Token != "":
	case who.HasPassword:
		c.NATS.Username, c.NATS.Password = who.Name, who.Password
	default:
		c.NATS.Token = who.Name
	}
	urls, who, err := credential.Split(strings.Join(c.Etcd.Endpoints, ","))
	if err != nil {
		return fmt.Errorf("URL of etcd: %w", err)
	}
	if c.Etcd.Endpoints = splitList(urls); c.Etcd.Username == "" {
		c.Etcd.Username, c.Etcd.Password = who.Name, who.Password
	}
	return nil
}

func (c *Config) checkFields() error {
	if err := cmp.Or(
		oneOf("discovery", c.Discovery, Etcd, Static), oneOf("request plane", c.Plane, NATS, TCP),
		oneOf("layout", c.Layout, Both, Seed, V1), oneOf("lease loss", c.LeaseLoss, Exit, Reregister),
	); err != nil {
		return err
	}
	if c.Plane == TCP && c.Discovery != Etcd {
		return excerpt.Errorf("request plane %q requires discovery %q, which has addresses, not %q", TCP, Etcd, c.Discovery)
	}
	for name := range c.StaticCards {
		if strings.Count(name, ".") != 2 {
			return excerpt.Errorf("static card of %q: must be namespace.component.endpoint", name)
		}
	}
	if c.Discovery != Static && len(c.Static)+len(c.StaticCards) > 0 {
		return excerpt.Errorf("static instances require discovery %q, not %q", Static, c.Discovery)
	}
	if c.Lease < 2*time.Second && c.Discovery == Etcd {
		return fmt.Errorf("lease of %v: must be at least 2s, the least etcd grants", c.Lease)
	}
	if c.MaxMessage <= wire.PreludeSize {
		return fmt.Errorf("largest message of %d bytes: must be more than %d", c.MaxMessage, wire.PreludeSize)
	}
	if c.WorkerID>>63 != 0 {
		return fmt.Errorf("worker id %d: must be at most 63 bits", c.WorkerID)
	}
	return c.Links.Check("response streams", c.ResponseHost)
}

func oneOf[T ~string](what string, got T, want ...T) error {
	if slices.Contains(want, got) {
		return nil
	}
	return excerpt.Errorf("%s %q: must be one of %q", what, got, want)
}

// FromEnv returns the configuration from environment variables, which it reads with getenv (for example os.Getenv).
// Errors name the variable.
func FromEnv(getenv func(string) string) (Config, error) {
	c := Config{
		Discovery: Discovery(getenv("DYN_DISCOVERY_BACKEND")),
		Plane:     RequestPlane(getenv("DYN_REQUEST_PLANE")),
		Etcd: EtcdConfig{
			Endpoints: splitList(getenv("ETCD_ENDPOINTS")),
			Username:  getenv("ETCD_AUTH_USERNAME"), Password: getenv("ETCD_AUTH_PASSWORD"),
			CA: getenv("ETCD_AUTH_CA"), Cert: getenv("ETCD_AUTH_CLIENT_CERT"), Key: getenv("ETCD_AUTH_CLIENT_KEY"),
		},
		NATS: NATSConfig{
			URL:      getenv("NATS_SERVER"),
			Username: getenv("NATS_AUTH_USERNAME"), Password: getenv("NATS_AUTH_PASSWORD"),
			Token: getenv("NATS_AUTH_TOKEN"), NKey: getenv("NATS_AUTH_NKEY"), Credentials: getenv("NATS_AUTH_CREDENTIALS_FILE"),
			CA: getenv("NATS_AUTH_CA"), Cert: getenv("NATS_AUTH_CLIENT_CERT"), Key: getenv("NATS_AUTH_CLIENT_KEY"),
		},
		ResponseHost: getenv("DYN_TCP_RESPONSE_STREAM_HOST"), Link: link.FromEnv(getenv),
	}
	var seconds int
	for _, n := range []struct {
		name string
		to   *int
	}{
		{"DYN_TCP_RESPONSE_STREAM_PORT", &c.ResponsePort},
		{"DYN_TCP_MAX_MESSAGE_SIZE", &c.MaxMessage},
		{"DYN_HTTP_BACKEND_STREAM_TIMEOUT_SECS", &seconds},
	} {
		text := getenv(n.name)
		if text == "" {
			continue
		}
		v, err := strconv.Atoi(text)
		if err != nil || v < 0 {
			return c, excerpt.Errorf("%s is %q, must be a whole number, 0 or more", n.name, text)
		}
		*n.to = v
	}
	c.Inactivity = time.Duration(seconds) * time.Second
	if err := c.splitURLs(); err != nil {
		return c, err
	}
	_, err := c.withDefaults()
	return c, err
}

// splitList splits text at commas and spaces, and drops empty parts.
func splitList(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

// ParseStatic parses addresses of endpoints such as "ns.component.endpoint=subject@1f,ns.component.endpoint=subject".
// The hexadecimal id after @ is optional.
func ParseStatic(text string) (map[string][]StaticInstance, error) {
	all := make(map[string][]StaticInstance)
	for _, entry := range splitList(text) {
		name, address, ok := strings.Cut(entry, "=")
		if !ok || strings.Count(name, ".") != 2 || address == "" {
			return nil, excerpt.Errorf("static instance %q: must be namespace.component.endpoint=subject, or =subject@id", entry)
		}
		for _, part := range strings.Split(name, ".") {
			if err := checkName("static instance", part); err != nil {
				return nil, err
			}
		}
		subject, hex, hasID := strings.Cut(address, "@")
		one := StaticInstance{Subject: subject}
		if hasID {
			id, err := strconv.ParseUint(hex, 16, 63)
			if err != nil || id == 0 {
				return nil, excerpt.Errorf("static instance %q: id is %q, must be hexadecimal, above 0 and below 2^63", entry, hex)
			}
			one.ID = id
		}
		if slices.ContainsFunc(all[name], func(o StaticInstance) bool { return o.ID == one.ID }) {
			return nil, excerpt.Errorf("static instance %q: %s has one with that id, or without any, already", entry, name)
		}
		all[name] = append(all[name], one)
	}
	return all, nil
}

// listenAddress returns the address to listen at, with a port.
func (c *Config) listenAddress(port int) string {
	return net.JoinHostPort(c.ResponseHost, strconv.Itoa(port))
}
