package vllm

// NewOfBlocks returns an idle engine that keeps every KV block singly.
func NewOfBlocks(cfg Config) (*Core, error) {
	c, err := New(cfg)
	if err == nil {
		c.pool = deviceOnly{device: newDevice(c)}
	}
	return c, err
}
