package frontend

// Active returns the number of requests that are being answered.
func (s *Server) Active() int { return int(s.active.Load()) }
