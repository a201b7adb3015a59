package credential

import "testing"

// Split separates URLs from their users, and Hide hides passwords.
func TestSplit(t *testing.T) {
	for urls, want := range map[string]struct {
		bare string
		who  User
		hide string
	}{
		"nats://h:1":                    {"nats://h:1", User{}, "nats://h:1"},
		"nats://me:pw@h:1":              {"nats://h:1", User{"me", "pw", true}, "nats://me:xxxxx@h:1"},
		"nats://tok@h:1":                {"nats://h:1", User{"tok", "", false}, "nats://xxxxx@h:1"},
		"nats://me:p%40w@h:1":           {"nats://h:1", User{"me", "p@w", true}, "nats://me:xxxxx@h:1"},
		"nats://me:p@w/x@h:1":           {"nats://h:1", User{"me", "p@w/x", true}, "nats://me:xxxxx@h:1"},
		"me:pw@h:1":                     {"h:1", User{"me", "pw", true}, "me:xxxxx@h:1"},
		"nats://me:pw@a,nats://me:pw@b": {"nats://a,nats://b", User{"me", "pw", true}, "nats://me:xxxxx@a,nats://me:xxxxx@b"},
		"nats://me:pw@a,nats://b":       {"nats://a,nats://b", User{"me", "pw", true}, "nats://me:xxxxx@a,nats://b"},
		"http://me:@h":                  {"http://h", User{"me", "", true}, "http://me:xxxxx@h"},
		"":                              {"", User{}, ""},
	} {
		bare, who, err := Split(urls)
		if err != nil || bare != want.bare || who != want.who || Hide(urls) != want.hide {
			t.Errorf("%s: %s, %+v, %s, %v, want %+v", urls, bare, who, Hide(urls), err, want)
		}
	}
	for _, urls := range []string{"nats://me:%zz@h", "nats://me:a@h,nats://me:b@h"} {
		if _, _, err := Split(urls); err == nil {
			t.Errorf("%s: no error", urls)
		}
	}
}
