package sglang

// Profiles returns the names of the rules that an engine can follow, those of releases of
// SGLang: the newest that are known, by two names.
func Profiles() []string { return []string{"sglang", "sglang-0.5.23"} }
