package sglang

// Profiles returns the names of the rules that an engine can follow: the newest supported release of SGLang, by two
// names.
func Profiles() []string { return []string{"sglang", "sglang-0.5.23"} }
