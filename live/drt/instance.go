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

// checkName rejects names that do not match ^[a-z0-9_-]+$, because names are parts of subjects and keys.
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

// serviceName returns name as the name of a NATS service: in lower case, with _ instead of characters other than a-z,
// 0-9, - and _, and without leading _.
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
	Device    string // device of the worker; "": unknown
}

// Transport is the address for requests to an instance. Exactly one field of a Transport is set.
type Transport struct {
	Subject string `json:"nats_tcp,omitempty"` // NATS subject
	Address string `json:"tcp,omitempty"`      // host:port/{id hex}/{endpoint}
}

// hexID formats an id for keys and subjects: lower-case hexadecimal without padding.
func hexID(id uint64) string { return strconv.FormatUint(id, 16) }

// record is the value of an instance's key in both layouts.
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

// layout is one of the formats of keys and subjects.
type layout struct {
	name   Layout
	prefix func(Name) string // prefix of the keys of an endpoint's instances
	group  func(Name) string // prefix of the subjects
}

// keyOf returns the key of an instance.
func (l layout) keyOf(n Name, id uint64) string { return l.prefix(n) + hexID(id) }

// instancesKey is the prefix of the keys of instances in the layout V1.
const instancesKey = "v1/instances/"

// allLayouts returns all layouts, the preferred layout last.
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

// layoutsToWrite returns the layouts to write for l.
func (l Layout) layoutsToWrite() []layout {
	var w []layout
	for _, one := range allLayouts() {
		if l == Both || l == one.name {
			w = append(w, one)
		}
	}
	return w
}

// subjectOf returns the subject for requests to an instance.
func (l layout) subjectOf(n Name, id uint64) string {
	return l.group(n) + "." + n.Endpoint + "-" + hexID(id)
}

// encodeInstance returns the value of the instance's key.
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

// decodeInstance decodes the value of a key. decodeInstance returns errOther if the value is not of the endpoint
// want: the key prefix of "generate" also matches keys of "generate-2".
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
