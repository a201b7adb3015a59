package sglang

// oracleStorage is the storage behind a case's host memory.
type oracleStorage struct {
	Backend    string  `json:"hicache_storage_backend"`
	Prefetch   string  `json:"hicache_storage_prefetch_policy"`
	Least      int     `json:"prefetch_threshold"`
	Timeout    float64 `json:"prefetch_timeout_base"`
	PerKi      float64 `json:"prefetch_timeout_per_ki_token"`
	ToStorage  float64 `json:"bandwidth_g2_to_g3_gbps"`
	OutStorage float64 `json:"bandwidth_g3_to_g2_gbps"`
}

func (o *oracleStorage) storage() Storage {
	return Storage{
		On: o.Backend != "", Policy: ParsePrefetchPolicy(o.Prefetch), Threshold: o.Least,
		Timeout: o.Timeout, TimeoutPerKiToken: o.PerKi, ToStorageGBPerSecond: o.ToStorage, ToHostGBPerSecond: o.OutStorage,
	}
}
