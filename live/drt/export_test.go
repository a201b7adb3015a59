package drt

// Active returns the number of requests that are being answered.
func (s *Serving) Active() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.active)
}
