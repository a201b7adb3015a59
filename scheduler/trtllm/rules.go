package trtllm

// Profiles returns the names of the rules that an engine can follow: those of release lines of TensorRT-LLM, the
// newest first.
func Profiles() []string { return []string{"trtllm-1.3", "trtllm-1.2"} }

// Newest is the profile of an engine where none is given.
const Newest = "trtllm-1.3"

// Rules are what differs between release lines.
type Rules struct {
	CreditCapacity bool // prefix blocks that requests hold are not reserved again
	CreditTokens   bool // prompt tokens that are expected to be found do not count in MaxTokens
	ClaimFirst     bool // the prefix blocks of all new requests of a plan are claimed before blocks are taken
	CountTransfers bool // a prompt that is being sent holds its seat and its blocks on the decode worker
	StoreWhole     bool // the first pass of a prompt stores all of its full blocks
}

// RulesOf returns the rules of a profile.
func RulesOf(profile string) Rules {
	if profile == "trtllm-1.2" {
		return Rules{}
	}
	return Rules{CreditCapacity: true, CreditTokens: true, ClaimFirst: true, CountTransfers: true}
}
