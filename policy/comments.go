package policy

import (
	"bytes"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
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

	marked   map[string]bool
	read     func(file string) []byte
	comments map[string][]Suppression // by file
}

// NewSuppressions returns Suppressions without those of a suppressions file. read returns the content
// of a file, or nil if its comments do not count. Files for which marked is false have none.
func NewSuppressions(marked map[string]bool, read func(file string) []byte) *Suppressions {
	s := &Suppressions{marked: marked, read: read, comments: make(map[string][]Suppression)}
	for file := range marked {
		s.In(file)
	}
	return s
}

// In returns the suppressions in comments of a file.
func (s *Suppressions) In(file string) []Suppression {
	if is, known := s.marked[file]; known && !is || s.read == nil {
		return nil
	}
	found, known := s.comments[file]
	if !known {
		found = parseComments(file, s.read(file))
		s.comments[file] = found
	}
	return found
}

// comment returns the comment that accepts a result, or a hint why the comment at its line does not.
// If several fields fail, each place needs a comment, since another may belong to another container.
// first returns the suppression of a list that covers a place of a result.
func (s *Suppressions) comment(r *Result, first func([]Suppression, *Result, int) *Suppression) (found *Suppression, hint string) {
	for i := 0; i < len(r.Origins) && (i == 0 || found != nil && len(r.Fields) > 1); i++ {
		x := first(s.In(r.Origins[i].File), r, i)
		if i == 0 {
			found = x
		} else if x == nil {
			return nil, fmt.Sprintf("the comment at %s:%d accepts one place of several: %s:%d needs one, too", found.Path, found.Origin.Line, r.Origins[i].File, r.Origins[i].Line)
		}
	}
	if found == nil || !s.Paired || r.Accepted && r.Baseline != New {
		return found, ""
	}
	if !r.Baseline.Counts() {
		return nil, ""
	}
	return nil, fmt.Sprintf("the comment at %s:%d does not accept this, since no comment of the base does (--allow-new-suppressions)", found.Path, found.Origin.Line)
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
	commentText = regexp.MustCompile(`^\s+(\S.*?)\s+until\s+(\d{4}-\d\d-\d\d):\s+(\S.*?)\s*$`)
	commentLine = regexp.MustCompile(`^\s*(?:#|\{\{-?\s*/\*(?:[^*]|\*+[^*/])*\*+/\s*-?\}\}\s*$)`)
)

// maxComments limits the comments of a file that are read, the first ones.
const maxComments = 1000

// parseComments returns the suppressions in comments of a file. A comment is about the first line, from
// its own on, that has more than a comment. One that is not written as CommentForm has no rule.
func parseComments(file string, data []byte) (found []Suppression) {
	if !bytes.Contains(data, []byte(render.IgnoreMark)) {
		return nil
	}
	number, about := 0, 0
	for line := range strings.Lines(string(data)) {
		number++
		if m := comment.FindStringSubmatch(line); m != nil && len(found) < maxComments {
			column := 1 + utf8.RuneCountInString(line[:strings.Index(line, render.IgnoreMark)])
			s := Suppression{Object: "**", Path: file, Line: number, Origin: render.Span{File: file, Line: number, Column: column}}
			if text := commentText.FindStringSubmatch(m[1] + m[2]); text != nil {
				s.Rule, s.Expires, s.Reason = text[1], text[2], text[3]
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
