package releases

import (
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"unicode"

	"github.com/replay-llm/replay/internal/excerpt"
	"github.com/replay-llm/replay/scheduler/vllm"
)

// Nearest returns the name of the set of rules that a release of vLLM, as 0.20.2,
// follows as far as is known: the newest of no later release, or else the oldest.
func Nearest(version string) string { return nearestProfile(version).name }

// RulesOf returns the rules of Nearest.
func RulesOf(version string) vllm.Rules { return nearestProfile(version).rules }

// nearestProfile returns the newest profile that begins no later than a release, or else the
// oldest.
func nearestProfile(version string) profile {
	all := knownProfiles()
	nearest := all[0]
	for _, k := range all {
		var asked [2]int
		if n, _ := fmt.Sscanf(version, "%d.%d", &asked[0], &asked[1]); n == 2 && slices.Compare(k.from[:], asked[:]) <= 0 {
			nearest = k
		}
	}
	return nearest
}

// parseRelease returns the release that a name of a set of rules has in it, as 0.29.1 in
// vllm-0.29.1; false where it has none.
func parseRelease(name string) (version string, ok bool) {
	version, ok = strings.CutPrefix(name, newestProfile+"-")
	var parts [2]int
	n, _ := fmt.Sscanf(version, "%d.%d", &parts[0], &parts[1])
	return version, ok && n == 2
}

// ParseRelease returns the name of a set of rules in a JSON string, if it is that of a release,
// as "vllm-0.29.1".
func ParseRelease(text string) (name string, ok bool) {
	name, err := strconv.Unquote(text)
	if err != nil {
		return "", false
	}
	_, ok = parseRelease(name)
	return name, ok
}

// listCompared reports whether the scheduler of a release was compared with the rules of Nearest.
func listCompared(version string) bool {
	return slices.Contains(nearestProfile(version).compared, version)
}

// RulesName returns the value of scheduler_profile for a release: the name of its rules, or of the release itself if it
// was not compared.
func RulesName(version string) string {
	name := newestProfile + "-" + version
	if _, ok := parseRelease(name); !ok || listCompared(version) {
		return Nearest(version)
	}
	return name
}

// Uncertainty returns the uncertainty of a name of scheduler_profile: for a release that was not compared, its rules
// and their differences to the next ones. It is "" for all other names.
func Uncertainty(name string) string {
	version, ok := parseRelease(name)
	if !ok || listCompared(version) || NameProfile(name) == name {
		return ""
	}
	all := knownProfiles()
	i := slices.IndexFunc(all, func(k profile) bool { return k.name == Nearest(version) })
	text := fmt.Sprintf("vLLM %s was not compared: it is simulated by the rules of %s (compared: %s)", version, all[i].name, strings.Join(all[i].compared, ", "))
	if i+1 < len(all) {
		text += fmt.Sprintf("; %s differs in %s", all[i+1].name, strings.Join(listDifferences(all[i], all[i+1]), ", "))
	}
	return text
}

// listDifferences returns the names of the rules in which two profiles differ, as scheduler_rules
// has them.
func listDifferences(a, b profile) (names []string) {
	x, y := reflect.ValueOf(a.rules), reflect.ValueOf(b.rules)
	for i := range x.NumField() {
		if x.Field(i).Interface() != y.Field(i).Interface() {
			names = append(names, snakeCase(x.Type().Field(i).Name))
		}
	}
	if a.large != b.large {
		names = append(names, "the limits of a server on GPUs of 160 GiB")
	}
	return names
}

// snakeCase returns the key of a field of Rules.
func snakeCase(name string) string {
	var b strings.Builder
	for i, r := range name {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// ParseProfile returns the set of rules of the given name; "" is the
// reference's.
func ParseProfile(name string) (vllm.Rules, error) {
	if k := findProfile(name); k != nil {
		return k.rules, nil
	}
	if name == "reference" || name == "" {
		return vllm.Rules{}, nil
	}
	return vllm.Rules{}, excerpt.Errorf("scheduler_profile is %q, must be %s", name, strings.Join(Profiles(), " or "))
}

// NameProfile returns the name of a set of rules of vLLM's own by one of its names, "" if
// there is none.
func NameProfile(name string) string {
	if k := findProfile(name); k != nil {
		return k.name
	}
	return ""
}

// findProfile returns the profile of a name, nil if there is none.
func findProfile(name string) *profile {
	if name == newestProfile {
		name = Newest()
	}
	for _, k := range knownProfiles() {
		if k.name == name {
			return &k
		}
	}
	if version, ok := parseRelease(name); ok {
		k := nearestProfile(version)
		return &k
	}
	return nil
}
