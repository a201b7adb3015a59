package trtllm

// Profiles returns the names of the rules that an engine can follow: release lines of TensorRT-LLM, the newest first.
func Profiles() []string { return []string{"trtllm-1.3", "trtllm-1.2"} }

// Newest is the default profile.
const Newest = "trtllm-1.3"

// Rules are the differences between release lines.
type Rules struct {
	CreditCapacity bool // prefix blocks that other requests hold are not reserved again
	CreditTokens   bool // prompt tokens that are expected in the cache do not count for MaxTokens
	ClaimFirst     bool // the prefix blocks of all new requests of a plan are held before blocks are allocated
	CountTransfers bool // a prompt in transfer counts as active and holds its blocks on the decode worker
	StoreWhole     bool // the first pass of a prompt stores all of its full blocks
}

// RulesOf returns the rules of a profile.
func RulesOf(profile string) Rules {
	if profile == "trtllm-1.2" {
		return Rules{}
	}
	return Rules{CreditCapacity: true, CreditTokens: true, ClaimFirst: true, CountTransfers: true}
}
