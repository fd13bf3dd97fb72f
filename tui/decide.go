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
	several := a.scope == thisObject && s.inSeveralUnits(policy.ObjectPattern(e.Object))
	x := a.scope.suppression(e.Result, several)
	x.Reason, x.Expires, x.Owner = a.reason, a.expires, a.owner
	return x
}

// suppression returns a suppression of a result, without reason and day. It names the
// unit of an object that is in several.
func (s scope) suppression(r *policy.Result, several bool) policy.Suppression {
	x := policy.Suppression{Rule: r.Policy, Object: "**"}
	if r.Rule != "" {
		x.Rule += "/" + r.Rule
	}
	switch s {
	case thisObject:
		x.Object = policy.ObjectPattern(r.Object)
		if r.Object.Kind == "" || several {
			x.Path = pathOf(r)
		}
	case thisFile:
		x.Path = pathOf(r)
		if len(r.Origins) > 0 && r.Origins[0].File != "" {
			x.Path = r.Origins[0].File
		}
	case thisUnit:
		x.Path = pathOf(r)
	}
	return x
}

// AcceptObject returns a suppression of a rule for one object, without reason and day.
// It names the unit of an object that is in several.
func AcceptObject(r *policy.Result, several bool) policy.Suppression {
	return thisObject.suppression(r, several)
}

// AcceptFile returns a suppression of a rule for all that is written in the file of a
// result, without reason and day.
func AcceptFile(r *policy.Result) policy.Suppression { return thisFile.suppression(r, false) }

// pathOf returns the path for a suppression of a result: its unit, or else its
// file.
func pathOf(r *policy.Result) string {
	if r.Object.Unit == "" && len(r.Origins) > 0 {
		return r.Origins[0].File
	}
	return r.Object.Unit
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
