package conformance

import (
	"fmt"
	"time"
)

// Name is what is wrong with an engine. It is an error, so that errors.Is finds
// it in what Run returns.
type Name string

// The names of failures.
const (
	StartFailed                   Name = "StartFailed"
	EmptyModelInConfig            Name = "EmptyModelInConfig"
	KvEventSourcesFailed          Name = "KvEventSourcesFailed"
	KvEventSourcesNotIdempotent   Name = "KvEventSourcesNotIdempotent"
	SetupMetricsFailed            Name = "SetupMetricsFailed"
	ComponentMetricsNotIdempotent Name = "ComponentMetricsNotIdempotent"
	GenerateFailed                Name = "GenerateFailed"
	NoChunksYielded               Name = "NoChunksYielded"
	StreamYieldedError            Name = "StreamYieldedError"
	NoTerminalChunk               Name = "NoTerminalChunk"
	ChunkAfterTerminal            Name = "ChunkAfterTerminal"
	CompletionTokensMismatch      Name = "CompletionTokensMismatch"
	ConcurrentGenerateFailed      Name = "ConcurrentGenerateFailed"
	CancellationNotObserved       Name = "CancellationNotObserved"
	CancellationIgnored           Name = "CancellationIgnored"
	CleanupFailed                 Name = "CleanupFailed"
	SecondCleanupFailed           Name = "SecondCleanupFailed"
	DropNotReleased               Name = "DropNotReleased"
	CleanupWithoutStartFailed     Name = "CleanupWithoutStartFailed"
)

// Error returns the name.
func (n Name) Error() string { return string(n) }

// Failure is what is wrong with an engine.
type Failure struct {
	Check  string // that found it
	Name   Name
	Detail string
	Cause  error // what the engine said, if it said something

	Chunked, Reported uint64        // of CompletionTokensMismatch: tokens in chunks and in the usage
	After             time.Duration // of CancellationNotObserved: how long the kit waited
}

// Error returns check, name and what was seen.
func (f *Failure) Error() string {
	text := f.Check + ": " + string(f.Name)
	switch f.Name {
	case CompletionTokensMismatch:
		text += fmt.Sprintf("{chunked: %d, reported: %d}", f.Chunked, f.Reported)
	case CancellationNotObserved:
		text += fmt.Sprintf("{after: %v}", f.After)
	}
	if f.Detail != "" {
		text += ": " + f.Detail
	}
	if f.Cause != nil {
		text += ": " + f.Cause.Error()
	}
	return text
}

// Unwrap returns what the engine said.
func (f *Failure) Unwrap() error { return f.Cause }

// Is reports whether target is the failure's name.
func (f *Failure) Is(target error) bool {
	n, ok := target.(Name)
	return ok && n == f.Name
}

// Skipped is why a check does not apply.
type Skipped struct{ Why string }

func (s *Skipped) Error() string { return "skipped: " + s.Why }

// newFailure returns a failure with what the engine said.
func newFailure(name Name, cause error, format string, args ...any) *Failure {
	return &Failure{Name: name, Cause: cause, Detail: fmt.Sprintf(format, args...)}
}
