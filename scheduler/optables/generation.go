package optables

// Generation returns the GPU's generation by NVIDIA's name; "" of one that is not named here.
func (s *Sheet) Generation() string {
	switch s.SM {
	case 80:
		return "Ampere"
	case 89:
		return "Ada"
	case 90:
		return "Hopper"
	case 100, 103:
		return "Blackwell"
	case 120:
		return "Blackwell RTX"
	}
	return ""
}
