package wheel

import "testing"

// Releases sort in the order in which they were published.
func TestCompareVersions(t *testing.T) {
	ordered := []string{"0.1.dev19262", "0.5.6", "0.5.6.post2", "0.5.9", "0.5.10", "0.5.14", "0.24.0", "1.2.0rc5", "1.2.0rc6.post3", "1.3.0rc5", "1.3.0rc20", "1.3.0", "1.3.0.post1", "1.3.1", "2.23", "2.27.3"}
	for i := range ordered {
		for j := range ordered {
			got := compareVersions(ordered[i], ordered[j])
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("%s and %s: %d", ordered[i], ordered[j], got)
			}
		}
	}
}
