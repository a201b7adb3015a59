package drt

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/internal/json"
)

// Name is the full name of an endpoint.
type Name struct {
	Namespace, Component, Endpoint string
}

func (n Name) String() string { return n.Namespace + "." + n.Component + "." + n.Endpoint }

// checkName rejects names that cannot be in a subject and a key. Names match ^[a-z0-9_-]+$.
func checkName(what, name string) error {
	if name == "" {
		return fmt.Errorf("%s: no name, expected letters a-z, digits, - and _", what)
	}
	for _, r := range name {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' && r != '_' {
			return excerpt.Errorf("%s %q: has %q, expected letters a-z, digits, - and _", what, name, r)
		}
	}
	return nil
}

// serviceName returns name in the form of a NATS service: lower case, with _ instead of characters other than a-z, 0-9,
// - or _, and none in front.
func serviceName(name string) string {
	return strings.TrimLeft(strings.Map(func(r rune) rune {
		if (r < 'a' || r > 'z') && (r < '0' || r > '9') && r != '-' {
			return '_'
		}
		return r
	}, strings.ToLower(name)), "_")
}

// Instance is one worker that serves an endpoint.
type Instance struct {
	Name
	ID        uint64
	Transport Transport
	Device    string // what it computes on, if it says so
}

// Transport is how requests reach an instance: one of the fields is set.
type Transport struct {
	Subject string `json:"nats_tcp,omitempty"` // of NATS
	Address string `json:"tcp,omitempty"`      // host:port/{id hex}/{endpoint}
}

// hexID returns an id as keys and subjects have it: lower case, no padding.
func hexID(id uint64) string { return strconv.FormatUint(id, 16) }

// record is the value of a key, of either layout.
type record struct {
	Type       string    `json:"type,omitempty"`
	Namespace  string    `json:"namespace"`
	Component  string    `json:"component"`
	Endpoint   string    `json:"endpoint"`
	InstanceID *uint64   `json:"instance_id,omitempty"`
	LeaseID    *uint64   `json:"lease_id,omitempty"`
	Transport  Transport `json:"transport"`
	Device     string    `json:"device_type,omitempty"`
}

// layout is one of the forms in which an instance is written down.
type layout struct {
	name   Layout
	prefix func(Name) string // of the keys of an endpoint's instances
	group  func(Name) string // of subjects
}

// keyOf returns the key of an instance.
func (l layout) keyOf(n Name, id uint64) string { return l.prefix(n) + hexID(id) }

// instancesKey is what the keys of instances begin with in the layout V1.
const instancesKey = "v1/instances/"

// allLayouts lists all layouts, the preferred last.
func allLayouts() []layout {
	return []layout{
		{
			Seed,
			func(n Name) string { return "/services/" + n.Namespace + "/" + n.Component + "/" + n.Endpoint + "-" },
			func(n Name) string { return n.Namespace + "." + n.Component },
		},
		{
			V1,
			func(n Name) string { return instancesKey + n.Namespace + "/" + n.Component + "/" + n.Endpoint + "/" },
			func(n Name) string { return serviceName(n.Namespace + "_" + n.Component) },
		},
	}
}

// layoutsToWrite lists the layouts to write for l.
func (l Layout) layoutsToWrite() []layout {
	var w []layout
	for _, one := range allLayouts() {
		if l == Both || l == one.name {
			w = append(w, one)
		}
	}
	return w
}

// subjectOf returns where an instance takes requests.
func (l layout) subjectOf(n Name, id uint64) string {
	return l.group(n) + "." + n.Endpoint + "-" + hexID(id)
}

// encodeInstance returns what is written under the instance's key.
func (l layout) encodeInstance(i Instance) []byte {
	r := record{
		Namespace: i.Namespace, Component: i.Component, Endpoint: i.Endpoint,
		Transport: i.Transport,
	}
	if l.name == V1 {
		r.Type, r.InstanceID, r.Device = "Endpoint", &i.ID, i.Device
	} else {
		r.LeaseID = &i.ID
	}
	b, err := json.Marshal(r)
	if err != nil {
		panic(fmt.Sprintf("instance %+v: %v", i, err))
	}
	return b
}

// decodeInstance reads a value. want is the endpoint with the prefix of the key: the prefix of "generate" is
// also one of keys of "generate-2".
func (l layout) decodeInstance(value []byte, want Name) (Instance, error) {
	var r record
	if err := json.Unmarshal(value, &r); err != nil {
		return Instance{}, err
	}
	id := r.InstanceID
	if l.name == Seed {
		id = r.LeaseID
	}
	got := Name{r.Namespace, r.Component, r.Endpoint}
	switch {
	case got != want:
		return Instance{}, fmt.Errorf("endpoint %v: %w", got, errOther)
	case id == nil:
		return Instance{}, fmt.Errorf("no id")
	case r.Transport == Transport{}:
		return Instance{}, excerpt.Errorf("transport is %q, must be nats_tcp or tcp", value)
	}
	return Instance{Name: got, ID: *id, Transport: r.Transport, Device: r.Device}, nil
}
