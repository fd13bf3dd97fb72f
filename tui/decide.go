package tui

import (
	"cmp"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/preadmit/preadmit/policy"
)

// A scope is how many results a suppression covers.
type scope int

const (
	thisObject scope = iota // this rule for this object
	thisFile                // this rule for everything written in this file
	thisUnit                // this rule for this unit
	thisRule                // this rule anywhere
	numScopes
)

var scopeWords = [numScopes]string{"this object", "this rule in this file", "this rule in this unit", "this rule everywhere"}

// An acceptance holds the user's input for accepting results.
type acceptance struct {
	reason, expires, owner string
	scope                  scope
}

// check returns an error if something is missing or wrong, and completes the
// day.
func (a *acceptance) check(today time.Time) error {
	a.reason, a.owner = strings.TrimSpace(a.reason), strings.TrimSpace(a.owner)
	if a.reason == "" {
		return errors.New("a reason is required: who reads the file later wants to know why")
	}
	day, err := parseDay(strings.TrimSpace(a.expires), today)
	if err != nil {
		return err
	}
	a.expires = day.Format(time.DateOnly)
	return nil
}

// parseDay parses a day, or a time from today such as 90d, 12w, 6m or 1y.
func parseDay(s string, today time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, errors.New("the last day is required, such as 2027-03-31 or 90d")
	}
	day, err := time.Parse(time.DateOnly, s)
	if err != nil {
		n, convErr := strconv.Atoi(s[:len(s)-1])
		if convErr != nil || n < 0 || n > 9999 {
			return day, fmt.Errorf("%q is no day such as 2027-03-31 or 90d", s)
		}
		switch s[len(s)-1] {
		case 'd':
			day = today.AddDate(0, 0, n)
		case 'w':
			day = today.AddDate(0, 0, 7*n)
		case 'm':
			day = today.AddDate(0, n, 0)
		case 'y':
			day = today.AddDate(n, 0, 0)
		default:
			return day, fmt.Errorf("%q is no day such as 2027-03-31 or 90d", s)
		}
	}
	if day.Year() > 9999 {
		return day, fmt.Errorf("%q is too far away", s)
	}
	if day.Format(time.DateOnly) < today.Format(time.DateOnly) {
		return day, fmt.Errorf("%s is over already", day.Format(time.DateOnly))
	}
	return day, nil
}

// accept returns the suppressions for entries, each different one once. It
// skips entries that need none.
func (s *session) accept(entries []*entry, a acceptance) []policy.Suppression {
	seen := make(map[policy.Suppression]bool)
	var all []policy.Suppression
	for _, e := range entries {
		if !e.acceptable() {
			continue
		}
		if x := s.suppression(e, a); !seen[x] {
			seen[x] = true
			all = append(all, x)
		}
	}
	return all
}

func (s *session) suppression(e *entry, a acceptance) policy.Suppression {
	x := policy.Suppression{Rule: e.Policy, Object: "**", Reason: a.reason, Expires: a.expires, Owner: a.owner}
	if e.Rule != "" {
		x.Rule += "/" + e.Rule
	}
	switch a.scope {
	case thisObject:
		x.Object = policy.ObjectPattern(e.Object)
		if e.Object.Kind == "" || s.inSeveralUnits(x.Object) {
			x.Path = e.path()
		}
	case thisFile:
		x.Path = e.path()
		if len(e.Origins) > 0 && e.Origins[0].File != "" {
			x.Path = e.Origins[0].File
		}
	case thisUnit:
		x.Path = e.path()
	}
	return x
}

// path returns the path for a suppression of a result: its unit, or else its
// file.
func (e *entry) path() string {
	if e.Object.Unit == "" && len(e.Origins) > 0 {
		return e.Origins[0].File
	}
	return e.Object.Unit
}

// inSeveralUnits reports whether several units have an object that matches a
// pattern. A suppression for one of them must name its unit.
func (s *session) inSeveralUnits(pattern string) bool {
	if s.ambiguous == nil {
		s.ambiguous = make(map[string]bool)
		unit := make(map[string]string)
		for _, e := range s.entries {
			p := policy.ObjectPattern(e.Object)
			if u, ok := unit[p]; ok && u != e.Object.Unit {
				s.ambiguous[p] = true
			}
			unit[p] = e.Object.Unit
		}
	}
	return s.ambiguous[pattern]
}

// described describes a suppression in words.
func described(s policy.Suppression) string {
	at := ""
	if s.Path != "" {
		at = " in " + s.Path
	}
	object := cmp.Or(s.Object, "**")
	if object == "**" {
		object = "anything"
	}
	return s.Rule + " for " + object + at
}
