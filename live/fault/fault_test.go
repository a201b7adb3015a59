package fault

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"testing"
)

// Errors are encoded as documented, and decoded to the same errors.
func TestWire(t *testing.T) {
	deep := New(CannotConnect, "no call home: %w", io.ErrUnexpectedEOF)
	tests := []struct {
		err  *Error
		want string
	}{
		{New(BackendInvalidArgument, "bad %s", "x"), `{"error_type":{"Backend":"InvalidArgument"},"message":"bad x"}`},
		{New(ResourceExhausted, "all busy"), `{"error_type":"ResourceExhausted","message":"all busy"}`},
		{deep, `{"error_type":"CannotConnect","message":"no call home: unexpected EOF","caused_by":{"error_type":"Unknown","message":"unexpected EOF"}}`},
	}
	for _, test := range tests {
		got, err := json.Marshal(test.err)
		if err != nil || string(got) != test.want {
			t.Errorf("wrote %s (%v), want %s", got, err, test.want)
		}
		var back Error
		if err := json.Unmarshal(got, &back); err != nil {
			t.Fatal(err)
		}
		if again, _ := json.Marshal(&back); string(again) != test.want {
			t.Errorf("read and wrote %s, want %s", again, test.want)
		}
	}
}

// The text of an error has each message once, also after it was sent over the wire.
func TestText(t *testing.T) {
	for want, err := range map[string]*Error{
		"Unknown: x":                       New(Unknown, "x"),
		"Cancelled":                        {Type: Cancelled},
		"Disconnected: stream: EOF":        New(Disconnected, "stream: %w", io.EOF),
		"Disconnected: stream: Unknown: y": {Type: Disconnected, Message: "stream", Cause: New(Unknown, "y")},
		"Disconnected: stream: EOF ":       {Type: Disconnected, Message: "stream: EOF ", Cause: io.EOF},
	} {
		if got := err.Error(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		b, jerr := json.Marshal(err)
		var back Error
		if jerr != nil || json.Unmarshal(b, &back) != nil || back.Error() != want {
			t.Errorf("over the wire %q, want %q", back.Error(), want)
		}
	}
}

// Every type is encoded and decoded. There are eight types outside Backend and nine inside: seven with the same
// names, and two more.
func TestTypes(t *testing.T) {
	top, backend := 0, 0
	for _, typ := range listTypes() {
		b, err := json.Marshal(typ)
		if err != nil {
			t.Fatal(err)
		}
		var back Type
		if err := json.Unmarshal(b, &back); err != nil || back != typ {
			t.Errorf("%s came back as %s (%v)", typ, back, err)
		}
		if v, ok := typ.Variant(); ok {
			backend++
			if typ.Backend() != typ || string(typ) != "Backend("+v+")" {
				t.Errorf("%s: variant %s, as Backend %s", typ, v, typ.Backend())
			}
		} else {
			top++
		}
	}
	if top != 8 || backend != 9 {
		t.Errorf("%d types at the top and %d inside Backend, want 8 and 9", top, backend)
	}
	if got := ResourceExhausted.Backend(); got != BackendUnknown {
		t.Errorf("ResourceExhausted inside Backend is %s", got)
	}
}

// Unknown types and malformed parts of other programs are decoded as far as possible.
func TestForeignWire(t *testing.T) {
	tests := []struct {
		in   string
		want Type
	}{
		{`{"error_type":"Overheated","message":"m"}`, Unknown},
		{`{"error_type":{"Backend":"Overheated"},"message":"m"}`, BackendUnknown},
		{`{"error_type":{"Backend":{"New":1}},"message":"m"}`, BackendUnknown},
		{`{"error_type":{"Frontend":"X"},"message":"m"}`, Unknown},
		{`{"message":"m"}`, Unknown},
	}
	for _, test := range tests {
		var e Error
		if err := json.Unmarshal([]byte(test.in), &e); err != nil || e.Type != test.want || e.Message != "m" {
			t.Errorf("%s: read %v (%v), want %s", test.in, &e, err, test.want)
		}
	}
	for _, bad := range []string{`{"error_type":7}`, `[]`, `{"message":1}`} {
		var e Error
		if err := json.Unmarshal([]byte(bad), &e); err == nil {
			t.Errorf("%s: no error", bad)
		}
	}
}

// errors.Is and errors.As find all causes, also of converted errors.
func TestChain(t *testing.T) {
	_, missing := os.Open("/no/such/file")
	inner := New(BackendEngineShutdown, "gone: %w", missing)
	around := fmt.Errorf("worker 3: %w", inner)
	for _, err := range []error{inner, around, From(around), FromEngine(around)} {
		var path *fs.PathError
		if !errors.Is(err, BackendEngineShutdown) || !errors.Is(err, fs.ErrNotExist) || !errors.As(err, &path) {
			t.Errorf("%v: lost part of its chain", err)
		}
		var e *Error
		if !errors.As(err, &e) || e.Type != BackendEngineShutdown {
			t.Errorf("%v: is %v inside", err, e)
		}
	}
	if got := From(around); got.Message != "worker 3: Backend(EngineShutdown): gone: open /no/such/file: no such file or directory" {
		t.Errorf("message %q", got.Message)
	}
	foreign := From(missing)
	if foreign.Type != Unknown || !errors.Is(foreign, fs.ErrNotExist) || foreign.Cause == nil {
		t.Errorf("a foreign error became %#v", foreign)
	}
	if From(nil) != nil || FromEngine(nil) != nil {
		t.Error("no error became one")
	}
	if got := From(inner); got != inner {
		t.Error("an Error was changed")
	}
	if got := From(Cancelled); got.Type != Cancelled || got.Error() != "Cancelled" {
		t.Errorf("a bare type became %v", got)
	}
	if got := From(fmt.Errorf("x: %w", Cancelled)); got.Type != Cancelled {
		t.Errorf("a wrapped bare type became %v", got)
	}
	both := New(Unknown, "%w and %w", io.EOF, fs.ErrExist)
	if !errors.Is(both, io.EOF) || !errors.Is(both, fs.ErrExist) {
		t.Errorf("%v: lost one of two causes", both)
	}
}

// Errors of an engine have a Backend type and keep their cause.
func TestFromEngine(t *testing.T) {
	tests := []struct {
		in   error
		want Type
	}{
		{New(BackendCancelled, "c"), BackendCancelled},
		{New(InvalidArgument, "c"), BackendInvalidArgument},
		{New(ResourceExhausted, "c"), BackendUnknown},
		{io.EOF, BackendUnknown},
		{fmt.Errorf("at 3: %w", New(Disconnected, "c")), BackendDisconnected},
	}
	for _, test := range tests {
		if got := FromEngine(test.in); got.Type != test.want || !strings.Contains(got.Error(), test.in.Error()) && got.Message != "c" {
			t.Errorf("%v became %v, want type %s", test.in, got, test.want)
		}
	}
	if !errors.Is(FromEngine(io.EOF), io.EOF) || !errors.Is(FromEngine(New(ResourceExhausted, "c")), ResourceExhausted) {
		t.Error("lost what it was")
	}
}

func TestMatchChain(t *testing.T) {
	err := New(BackendUnknown, "a: %w", New(Disconnected, "b: %w", New(ResponseTimeout, "c")))
	two := errors.Join(New(CannotConnect, "a"), InvalidArgument)
	tests := []struct {
		err            error
		match, exclude []Type
		want           bool
	}{
		{err, []Type{Disconnected}, nil, true},
		{err, []Type{ResponseTimeout, CannotConnect}, nil, true},
		{err, []Type{CannotConnect}, nil, false},
		{err, []Type{Disconnected}, []Type{ResponseTimeout}, false},
		{err, []Type{Disconnected}, []Type{Unknown}, true},
		{err, nil, nil, false},
		{fmt.Errorf("x: %w", err), []Type{BackendUnknown}, nil, true},
		{two, []Type{CannotConnect}, nil, true},
		{two, []Type{CannotConnect}, []Type{InvalidArgument}, false},
		{From(two), []Type{CannotConnect}, []Type{InvalidArgument}, false},
		{nil, []Type{Unknown}, nil, false},
		{io.EOF, []Type{Unknown}, nil, false},
		{From(io.EOF), []Type{Unknown}, nil, true},
	}
	for i, test := range tests {
		if got := MatchChain(test.err, test.match, test.exclude); got != test.want {
			t.Errorf("%d: %v against %v without %v is %v", i, test.err, test.match, test.exclude, got)
		}
	}
}

// A chain of any length is encoded and decoded up to a maximum depth.
func TestDepth(t *testing.T) {
	var err error = io.EOF
	for range 1000 {
		err = &Error{Type: Unknown, Message: "x", Cause: err}
	}
	b, jerr := json.Marshal(err)
	if jerr != nil || strings.Count(string(b), "caused_by") != maxDepth-1 {
		t.Errorf("%d causes written (%v), want %d", strings.Count(string(b), "caused_by"), jerr, maxDepth-1)
	}
}

func FuzzError(f *testing.F) {
	f.Add([]byte(`{"error_type":{"Backend":"InvalidArgument"},"message":"m","caused_by":{"error_type":"Unknown","message":""}}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		var e Error
		if json.Unmarshal(b, &e) != nil {
			return
		}
		first, err := json.Marshal(&e)
		if err != nil {
			t.Fatal(err)
		}
		var again Error
		if err := json.Unmarshal(first, &again); err != nil {
			t.Fatal(err)
		}
		if second, _ := json.Marshal(&again); string(first) != string(second) {
			t.Errorf("%s, then %s", first, second)
		}
	})
}
