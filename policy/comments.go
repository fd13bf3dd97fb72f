package policy

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/preadmit/preadmit/render"
)

// CommentForm is how a comment accepts failures of a rule at its line.
const CommentForm = "# " + render.IgnoreMark + " RULE until 2027-03-31: reason"

// Suppressions holds the suppressions of a suppressions file, and those in comments of other files,
// which are read when a result is about the file. It is not safe for concurrent use.
type Suppressions struct {
	Listed []Suppression // of the suppressions file
	Paired bool          // a comment accepts a result only if the base accepts it by a comment, too

	read     func(file string) []byte
	comments map[string][]Suppression // by file
}

// NewSuppressions returns Suppressions without those of a suppressions file. read returns the content
// of a file, or nil if its comments do not count. Files for which marked is false have none.
func NewSuppressions(marked map[string]bool, read func(file string) []byte) *Suppressions {
	s := &Suppressions{read: read, comments: make(map[string][]Suppression, len(marked))}
	for file, is := range marked {
		if s.comments[file] = nil; is {
			s.comments[file] = parseComments(file, read(file))
		}
	}
	return s
}

// In returns the suppressions in comments of a file.
func (s *Suppressions) In(file string) []Suppression {
	found, known := s.comments[file]
	if !known && s.read != nil {
		found = parseComments(file, s.read(file))
		s.comments[file] = found
	}
	return found
}

// comment returns the comment that accepts a result, or nil and a hint if there is one that does not. If
// several fields fail, each place needs a comment, since the places may belong to different containers.
// first returns the suppression of a list that covers a result at its first place.
func (s *Suppressions) comment(r *Result, first func([]Suppression, *Result) *Suppression) (found *Suppression, hint string) {
	for i, o := range r.Origins {
		comments := s.In(o.File)
		if i == 0 && len(comments) == 0 {
			return nil, ""
		}
		at := *r
		at.Origins = r.Origins[i:]
		x := first(comments, &at)
		if i == 0 {
			found = x
		}
		if found == nil {
			return nil, ""
		}
		if x == nil && len(r.Fields) > 1 {
			return nil, fmt.Sprintf("the comment at %s:%d accepts one place of several: %s:%d needs one, too", found.Path, found.Origin.Line, o.File, o.Line)
		}
	}
	switch {
	case found == nil || !s.Paired || r.Accepted && r.Baseline != New:
		return found, ""
	case r.Baseline.Counts():
		return nil, fmt.Sprintf("the comment at %s:%d does not accept this, since no comment of the base does (--allow-new-suppressions)", found.Path, found.Origin.Line)
	}
	return nil, ""
}

// InComments returns the suppressions in comments of the files read so far, ordered by place.
func (s *Suppressions) InComments() []Suppression { return slices.Concat(s.lists()[1:]...) }

// lists returns the suppressions of the suppressions file, and those of each other file.
func (s *Suppressions) lists() [][]Suppression {
	all := [][]Suppression{s.Listed}
	for _, file := range slices.Sorted(maps.Keys(s.comments)) {
		all = append(all, s.comments[file])
	}
	return all
}

var (
	comment     = regexp.MustCompile(`(?:^|\s)#\s*` + render.IgnoreMark + `(.*)|\{\{-?\s*/\*\s*` + render.IgnoreMark + `(.*?)\*/`)
	commentText = regexp.MustCompile(`^\s+(\S.*?)\s+until\s+(\S+):\s+(\S.*?)\s*$`)
	commentLine = regexp.MustCompile(`^\s*(?:#|\{\{-?\s*/\*(?:[^*]|\*+[^*/])*\*+/\s*-?\}\}\s*$)`)
)

// parseComments returns the suppressions in comments of a file. A comment is about the first line, from
// its own on, that has more than a comment. One that is not written as CommentForm has no rule.
func parseComments(file string, data []byte) (found []Suppression) {
	if !bytes.Contains(data, []byte(render.IgnoreMark)) {
		return nil
	}
	number, about := 0, 0
	for line := range strings.Lines(string(data)) {
		number++
		if m := comment.FindStringSubmatch(line); m != nil {
			column := 1 + utf8.RuneCountInString(line[:strings.Index(line, render.IgnoreMark)])
			s := Suppression{Object: "**", Path: file, Line: number, Origin: render.Span{File: file, Line: number, Column: column}}
			if text := commentText.FindStringSubmatch(m[1] + m[2]); text != nil {
				if _, err := time.Parse(dateFormat, text[2]); err == nil {
					s.Rule, s.Expires, s.Reason = text[1], text[2], text[3]
				}
			}
			found = append(found, s)
		}
		if commentLine.MatchString(line) {
			continue
		}
		for ; about < len(found); about++ {
			found[about].Line = number
		}
	}
	return found
}
