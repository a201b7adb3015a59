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

// Nearest returns the name of the most likely profile of a vLLM release such as 0.20.2. The most likely profile is
// the newest profile that begins no later than the release, or else the oldest profile.
func Nearest(version string) string { return nearestProfile(version).name }

// RulesOf returns the rules of the profile that Nearest names.
func RulesOf(version string) vllm.Rules { return nearestProfile(version).rules }

// nearestProfile returns the newest profile that begins no later than a release, or else the oldest profile.
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

// parseRelease returns the release in the name of a set of rules, for example 0.29.1 in vllm-0.29.1. ok is false if
// there is none.
func parseRelease(name string) (version string, ok bool) {
	version, ok = strings.CutPrefix(name, newestProfile+"-")
	var parts [2]int
	n, _ := fmt.Sscanf(version, "%d.%d", &parts[0], &parts[1])
	return version, ok && n == 2
}

// ParseRelease returns the name of a set of rules in a JSON string, for example "vllm-0.29.1". ok is false if the
// name does not contain a release.
func ParseRelease(text string) (name string, ok bool) {
	name, err := strconv.Unquote(text)
	if err != nil {
		return "", false
	}
	_, ok = parseRelease(name)
	return name, ok
}

// listCompared reports whether the scheduler of a release was compared with the rules of its profile.
func listCompared(version string) bool {
	return slices.Contains(nearestProfile(version).compared, version)
}

// RulesName returns the value of scheduler_profile for a release. The value names the release itself if it was not
// compared, and otherwise its profile.
func RulesName(version string) string {
	name := newestProfile + "-" + version
	if _, ok := parseRelease(name); !ok || listCompared(version) {
		return Nearest(version)
	}
	return name
}

// Uncertainty returns a text about the uncertainty of a scheduler_profile. For a release that was not compared the
// text names the rules in use and the differences to the next profile. For other names Uncertainty returns "".
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

// listDifferences returns the names of rules in which two profiles differ, as in scheduler_rules.
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

// snakeCase returns the JSON key of a field of Rules.
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

// ParseProfile returns the rules of the profile with that name; "" means the reference.
func ParseProfile(name string) (vllm.Rules, error) {
	if k := findProfile(name); k != nil {
		return k.rules, nil
	}
	if name == "reference" || name == "" {
		return vllm.Rules{}, nil
	}
	return vllm.Rules{}, excerpt.Errorf("scheduler_profile is %q, must be %s", name, strings.Join(Profiles(), " or "))
}

// NameProfile returns the name of the vLLM profile that a name or alias selects, or "" if there is none.
func NameProfile(name string) string {
	if k := findProfile(name); k != nil {
		return k.name
	}
	return ""
}

// findProfile returns the profile that a name or alias selects, or nil if there is none.
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
