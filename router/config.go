package router

import (
	"slices"
	"strings"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/scheduler"
)

// QueueOrder is the order in which held requests are placed.
type QueueOrder uint8

const (
	FCFS       QueueOrder = iota // first come, first served
	LCFS                         // last come, first served
	WSPT                         // fewest uncached tokens first
	ByPriority                   // smallest Priority first, then by arrival
	WFQ                          // weighted fair queueing of classes by ClassTerms.Weight
	EDF                          // earliest ClassTerms.Deadline first, then by arrival
)

func (o QueueOrder) String() string {
	return [...]string{"fcfs", "lcfs", "wspt", "priority", "wfq", "edf"}[o]
}

// QueueOrders returns the names of all queue orders.
func QueueOrders() []string {
	var names []string
	for o := FCFS; o <= EDF; o++ {
		names = append(names, o.String())
	}
	return names
}

// ParseQueueOrder returns the queue order with the given name.
func ParseQueueOrder(name string) (QueueOrder, error) {
	if i := slices.Index(QueueOrders(), name); i >= 0 {
		return QueueOrder(i), nil
	}
	return 0, excerpt.Errorf("router_queue_policy is %q, must be one of %s", name, strings.Join(QueueOrders(), ", "))
}

// LoadModel is the decay of outstanding prefill tokens over time.
type LoadModel uint8

const (
	LoadNone LoadModel = iota // tokens count in full until the first token
	LoadAIC                   // the oldest prefill of a worker decays over its predicted duration
)

func (m LoadModel) String() string { return [...]string{"none", "aic"}[m] }

// Config is the configuration of the KV policy. Fields for live serving only are checked and recorded, and have no
// effect offline.
type Config struct {
	// OverlapScoreCredit is the part of a cached block that is subtracted from a worker's cost, from 0 to 1.
	// OverlapScoreCredit defaults to 1; 0 ignores caches.
	OverlapScoreCredit float64
	// PrefillLoadScale is the weight of prefill blocks relative to active blocks. PrefillLoadScale defaults to 1; 0
	// counts only active blocks.
	PrefillLoadScale float64
	// Temperature is the randomness of the choice of a worker. Temperature defaults to 0, which selects the cheapest
	// worker, and the lowest id among equals.
	Temperature float64
	// TrackActiveBlocks counts the blocks of running prompts. The default is true.
	TrackActiveBlocks bool
	// AssumeKVReuse counts the common blocks of running prompts once. The default is true.
	AssumeKVReuse bool
	// TrackPrefillTokens counts the prompt tokens that are not computed yet. The default is true.
	TrackPrefillTokens bool
	// PrefillLoadModel is the decay of the prompt tokens to compute. PrefillLoadModel defaults to LoadNone.
	PrefillLoadModel LoadModel
	// QueueThreshold holds requests while every worker has more prompt tokens to compute than this factor times its
	// token budget per pass. QueueThreshold defaults to 4. 0 holds requests while any tokens are left to compute; nil
	// never holds requests.
	QueueThreshold *float64
	// QueuePolicy is the order of held requests. QueuePolicy defaults to FCFS.
	QueuePolicy QueueOrder

	Live LiveConfig

	weight *float64 // overlap_score_weight during parsing
}

// LiveConfig is the part of Config that only the reference uses. LiveConfig is checked and kept, so that run
// directories record it.
type LiveConfig struct {
	HostCacheHitWeight    float64 // 0.75; from 0 to 1
	DiskCacheHitWeight    float64 // 0.25; from 0 to 1
	SharedCacheMultiplier float64 // 0; from 0 to 1
	SharedCacheType       string  // "none" or "hicache"
	UseKVEvents           bool    // true
	DurableKVEvents       bool
	ReplicaSync           bool
	ResetStates           bool
	TrackOutputBlocks     bool
	SkipInitialWorkerWait bool
	UseRemoteIndexer      bool
	ServeIndexer          bool
	SnapshotThreshold     *uint32 // 1,000,000 events; nil for no snapshots
	TTLSeconds            float64 // 120
	EventThreads          uint32  // 4; at least 1
}

// DefaultConfig returns the values of an empty configuration.
func DefaultConfig() Config {
	queue, snapshot := 4.0, uint32(1_000_000)
	return Config{
		OverlapScoreCredit: 1,
		PrefillLoadScale:   1,
		TrackActiveBlocks:  true,
		AssumeKVReuse:      true,
		TrackPrefillTokens: true,
		QueueThreshold:     &queue,
		Live: LiveConfig{
			HostCacheHitWeight: 0.75,
			DiskCacheHitWeight: 0.25,
			SharedCacheType:    "none",
			UseKVEvents:        true,
			SnapshotThreshold:  &snapshot,
			TTLSeconds:         120,
			EventThreads:       4,
		},
	}
}

// ForRole returns the configuration that the router of a pool with role r uses. The result is not checked again.
func (c Config) ForRole(r scheduler.Role) Config {
	switch r {
	case scheduler.Prefill:
		c.TrackActiveBlocks = false
	case scheduler.Decode:
		c.OverlapScoreCredit = 0
		c.AssumeKVReuse = false
		c.TrackPrefillTokens = false
		c.PrefillLoadModel = LoadNone
	}
	return c
}
