package timing

import (
	"fmt"
	"os"
	"strings"

	"github.com/replay-llm/replay/scheduler/hardware"
	"github.com/replay-llm/replay/scheduler/optables"
)

// Form is the kind of a Source.
type Form uint8

const (
	BuiltIn    Form = iota // the reference's polynomial, for no specific GPU
	File                   // a profile from replay calibrate, or a table of the reference
	DataSheets             // data sheets of a model and its GPUs
	Operators              // measured operators of the GPUs of a model
)

// Source is the origin of an engine's pass times. The zero value is the built-in polynomial.
type Source struct {
	form Form
	text string        // text in settings, digests and reports: the path of a file, or a prefix and the text of a fit
	fit  *hardware.Fit // fit of DataSheets and Operators
	err  error         // the reason why fit is nil
}

// prefix returns the text prefix of a form without a file; hardware.ParseFit parses the text after it.
func (f Form) prefix() string { return [...]string{DataSheets: "roofline:", Operators: "silicon:"}[f] }

// ParseSource returns the source of a text: the path of a JSON profile or of a table of the reference (.npz),
// roofline:GPU/MODEL, or silicon:GPU/MODEL. Errors in the text are returned later, by the methods that need the
// hardware or the file.
func ParseSource(text string) Source {
	for _, form := range []Form{DataSheets, Operators} {
		if name, ok := strings.CutPrefix(text, form.prefix()); ok {
			f, err := hardware.ParseFit(name)
			return Source{form: form, text: text, fit: &f, err: err}
		}
	}
	if text == "" {
		return Source{}
	}
	return Source{form: File, text: text}
}

// BySheets returns the source of pass times from the data sheets of a fit; text is the input of hardware.ParseFit for
// the fit.
func BySheets(text string, f hardware.Fit) Source {
	return Source{form: DataSheets, text: DataSheets.prefix() + text, fit: &f}
}

// ByOperators returns the source of pass times from measured operators of the same hardware, for an engine and its
// release, for example vllm-0.33. ByOperators returns s if s has no hardware.
func (s Source) ByOperators(engine string) Source {
	if s.fit == nil {
		return s
	}
	f := *s.fit
	f.Engine = engine
	text := hardware.AddKey(strings.TrimPrefix(s.text, s.form.prefix()), hardware.EngineKey, engine)
	return Source{form: Operators, text: Operators.prefix() + text, fit: &f, err: s.err}
}

// Form returns the kind of the source.
func (s Source) Form() Form { return s.form }

// String returns the text of the source, or "" for the built-in polynomial.
func (s Source) String() string { return s.text }

// Recorded returns the text of the source, which represents the source in run directories and digests.
func (s Source) Recorded() any { return s.text }

// Fit returns the model on its GPUs. ok is false for files, for the built-in polynomial, and for unknown hardware.
func (s Source) Fit() (f hardware.Fit, ok bool) {
	if s.fit == nil || s.err != nil {
		return f, false
	}
	return *s.fit, true
}

// Load returns the model of pass times.
func (s Source) Load() (Model, error) {
	switch {
	case s.form == BuiltIn:
		return Polynomial{}, nil
	case s.err != nil:
		return nil, fmt.Errorf("%s%w", s.form.prefix(), s.err)
	case s.form == Operators:
		return loadMeasured(s.fit)
	case s.form == DataSheets:
		p := Roofline(s.fit)
		return &p.Parameters, nil
	}
	zip, err := startsWith(s.text, "PK")
	if err != nil {
		return nil, err
	}
	if zip || s.namesTable() {
		return LoadNPZ(s.text)
	}
	p, err := LoadProfile(s.text)
	if err != nil {
		return nil, err
	}
	return &p.Parameters, nil
}

// ByRequests reports whether pass times come from the built-in polynomial or a table, which time prefill and decode
// by numbers of requests. A table is recognized by its file name.
func (s Source) ByRequests() bool { return s.form == BuiltIn || s.form == File && s.namesTable() }

// namesTable reports whether the text is the path of a table of the reference.
func (s Source) namesTable() bool { return strings.HasSuffix(s.text, ".npz") }

// HoldsProfile reports whether the file of the source contains a profile. If the file does not exist, the name of the
// file decides.
func (s Source) HoldsProfile() bool {
	if s.form != File || s.namesTable() {
		return false
	}
	zip, err := startsWith(s.text, "PK")
	return err == nil && !zip || err != nil && strings.HasSuffix(s.text, ".json")
}

// startsWith reports whether a file begins with text.
func startsWith(path, text string) (bool, error) {
	f, err := os.Open(path)
	if err != nil {
		return false, fmt.Errorf("%s: %w", path, err)
	}
	defer f.Close()
	begin := make([]byte, len(text))
	n, _ := f.Read(begin) // an empty file does not begin with text
	return string(begin[:n]) == text, nil
}

// Profile reads the profile of the source.
func (s Source) Profile() (*Profile, error) { return LoadProfile(s.text) }

// engine returns the server of the source's profile, or nil if there is no profile or it does not name a server.
func (s Source) engine() (*Engine, error) {
	if !s.HoldsProfile() {
		return nil, nil
	}
	p, err := s.Profile()
	if err != nil {
		return nil, err
	}
	return p.Engine, nil
}

// GPUs returns the number of GPUs of a worker, from the hardware or from the server of a profile, and their price.
// The number is 1 if neither is known.
func (s Source) GPUs() (count int, price float64, err error) {
	if s.fit != nil {
		return s.fit.GPUs(), s.fit.GPU.Price, s.err
	}
	e, err := s.engine()
	if err != nil || e == nil {
		return 1, 0, err
	}
	gpu, err := hardware.FindGPU(e.GPU, nil)
	if err != nil {
		gpu.Price = 0 // the GPU is not one of the tables
	}
	return max(1, e.TensorParallel), gpu.Price, nil
}

// Names returns the names of the GPUs and of the model, or "" if they are unknown.
func (s Source) Names() (gpu, model string) {
	if f, ok := s.Fit(); ok {
		return f.GPU.Name, f.Model.Name
	}
	if e, err := s.engine(); err == nil && e != nil {
		return e.GPU, e.Model
	}
	return "", ""
}

// Engine returns the engine of pass times from measured operators. ok is false for other pass times.
func (s Source) Engine() (e optables.Engine, ok bool) {
	if f, known := s.Fit(); known && s.form == Operators {
		e, _ = SplitEngine(f.Engine)
		return e, true
	}
	return e, false
}

// operators returns the fit of pass times from measured operators.
func (s Source) operators() (*hardware.Fit, error) {
	if s.form != Operators {
		return nil, fmt.Errorf("%s: no pass times by measured operators", s.text)
	}
	return s.fit, s.err
}
