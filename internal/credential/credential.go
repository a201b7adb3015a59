// Package credential removes user names and passwords from URLs, so that they are not printed.
package credential

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
)

// User is the user name and password of a URL.
type User struct {
	Name, Password string
	HasPassword    bool
}

// Split splits a comma-separated list of URLs into the URLs without credentials, and their common user. The errors do
// not quote the URLs.
func Split(urls string) (bare string, who User, err error) {
	var all []string
	for i, text := range strings.Split(urls, ",") {
		one, info, found := cutUser(text)
		all = append(all, one)
		if !found {
			continue
		}
		var u User
		name, password, has := strings.Cut(info, ":")
		u.HasPassword = has
		if u.Name, err = url.PathUnescape(name); err == nil {
			u.Password, err = url.PathUnescape(password)
		}
		if err != nil {
			return "", User{}, fmt.Errorf("URL %d of a list: its user name or password has a %% that is not followed by two hexadecimal digits", i+1)
		}
		if who != (User{}) && who != u {
			return "", User{}, errors.New("URLs of a list with different users or passwords: expected the same in all")
		}
		who = u
	}
	return strings.Join(all, ","), who, nil
}

// Hide returns a comma-separated list of URLs in which xxxxx replaces each password.
func Hide(urls string) string {
	all := strings.Split(urls, ",")
	for i, text := range all {
		scheme, _, found := strings.Cut(text, "://")
		bare, info, has := cutUser(text)
		if !has {
			continue
		}
		name, _, password := strings.Cut(info, ":")
		who := "xxxxx" // a name without a password may be a token
		if password {
			who = name + ":xxxxx"
		}
		if !found {
			all[i] = who + "@" + bare
			continue
		}
		all[i] = scheme + "://" + who + "@" + strings.TrimPrefix(bare, scheme+"://")
	}
	return strings.Join(all, ",")
}

// cutUser returns a URL without its user, and the user as written. The user ends at the last @, because a password
// may contain / and @.
func cutUser(text string) (bare, info string, found bool) {
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok {
		scheme, rest = "", text
	} else {
		scheme += "://"
	}
	at := strings.LastIndexByte(rest, '@')
	if at < 0 {
		return text, "", false
	}
	return scheme + rest[at+1:], rest[:at], true
}
