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
	ByPriority                   // the least Priority first, then by arrival
	WFQ                          // classes in turn, each its share by ClassTerms.Weight
	EDF                          // the earliest ClassTerms.Deadline first, then by arrival
)

func (o QueueOrder) String() string {
	return [...]string{"fcfs", "lcfs", "wspt", "priority", "wfq", "edf"}[o]
}

// QueueOrders returns the names of all orders.
func QueueOrders() []string {
	var names []string
	for o := FCFS; o <= EDF; o++ {
		names = append(names, o.String())
	}
	return names
}

// ParseQueueOrder returns the order of the given name.
func ParseQueueOrder(name string) (QueueOrder, error) {
	if i := slices.Index(QueueOrders(), name); i >= 0 {
		return QueueOrder(i), nil
	}
	return 0, excerpt.Errorf("router_queue_policy is %q, must be one of %s", name, strings.Join(QueueOrders(), ", "))
}

// LoadModel is how outstanding prefill tokens decay over time.
type LoadModel uint8

const (
	LoadNone LoadModel = iota // they count in full until the first token
	LoadAIC                   // the oldest prefill of a worker decays over its predicted time
)

func (m LoadModel) String() string { return [...]string{"none", "aic"}[m] }

// Config is the configuration of the KV policy. Fields that matter to live
// serving only are checked and kept, and change nothing offline.
type Config struct {
	// OverlapScoreCredit is the part of a cached block that is taken off a
	// worker's cost, from 0 to 1, default 1; 0 ignores caches.
	OverlapScoreCredit float64
	// PrefillLoadScale is the weight of prefill blocks against active blocks,
	// default 1; 0 counts active blocks alone.
	PrefillLoadScale float64
	// Temperature is how freely a worker is drawn, default 0: the cheapest one,
	// the lowest id among equals.
	Temperature float64
	// TrackActiveBlocks counts the blocks of running prompts, default true.
	TrackActiveBlocks bool
	// AssumeKVReuse lets running prompts share the blocks they have in common,
	// default true.
	AssumeKVReuse bool
	// TrackPrefillTokens counts the prompt tokens still to compute, default true.
	TrackPrefillTokens bool
	// PrefillLoadModel is how they decay, default LoadNone.
	PrefillLoadModel LoadModel
	// QueueThreshold holds requests back while every worker has more prompt
	// tokens to compute than this many times its budget per pass, default 4; 0
	// holds them while any are to compute; nil never holds.
	QueueThreshold *float64
	// QueuePolicy is the order of held requests, default FCFS.
	QueuePolicy QueueOrder

	Live LiveConfig

	weight *float64 // overlap_score_weight while it is being read
}

// LiveConfig is the part of Config that only the reference uses: it is checked and
// kept, so that run directories record it.
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

// DefaultConfig returns what an empty configuration means.
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

// ForRole returns c as the router of a pool of that role uses it. The result is
// not checked again.
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
