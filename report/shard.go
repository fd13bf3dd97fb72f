package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/preadmit/preadmit/policy"
)

// note returns the sentence with which formats other than JSON say that the report is one part of a
// run.
func (s *Shard) note() string {
	return fmt.Sprintf("this is part %d of %d of a run: results of units in the other parts are not in it; preadmit convert joins the JSON reports of all parts", s.Number, s.Of)
}

// A Part is a report of a file.
type Part struct {
	File string
	*Report
}

// Join returns the report of a run. parts must hold each part once, in any order.
func Join(parts []Part) (*Report, error) {
	byNumber := make(map[int]Part)
	first := parts[0]
	for _, p := range parts {
		s := p.Shard
		if s == nil || s.Number < 1 || s.Number > s.Of {
			return nil, fmt.Errorf("%s: this is no part of a run, so it can't be joined with others: check --shard writes parts", p.File)
		}
		if s.Run != first.Shard.Run || s.Of != first.Shard.Of {
			return nil, fmt.Errorf("%s: this is a part of another run than %s: they differ in what was rendered, in policies or in flags", p.File, first.File)
		}
		if twin, ok := byNumber[s.Number]; ok {
			return nil, fmt.Errorf("%s: part %d of %d of this run is given twice, %s is the other one", p.File, s.Number, s.Of, twin.File)
		}
		was, again := p.Summary, *p.Report
		again.recount()
		if is := again.Summary; is.Fail != was.Fail || is.Unknown != was.Unknown || is.Error != was.Error {
			return nil, fmt.Errorf("%s: its summary counts other results than it has, so it was cut or edited: run check --shard %d/%d again", p.File, s.Number, s.Of)
		}
		byNumber[s.Number] = p
	}
	if missing := missingParts(byNumber, first.Shard.Of); len(missing) > 0 {
		return nil, fmt.Errorf("%s: this run has %d parts, of which %s missing: give the JSON reports of all parts", first.File, first.Shard.Of, areMissing(missing))
	}
	joined := *byNumber[1].Report
	joined.Shard, joined.Results, joined.Proposed = nil, nil, nil
	if h := joined.Rehearsal; h != nil {
		all := *h
		all.Rows = nil
		joined.Rehearsal = &all
	}
	for n := 1; n <= first.Shard.Of; n++ {
		p := byNumber[n]
		joined.Results = append(joined.Results, p.Results...)
		if p.Rehearsal != nil && joined.Rehearsal != nil {
			for _, row := range p.Rehearsal.Rows {
				joined.Rehearsal.Add(row)
			}
		}
		joined.Proposed = append(joined.Proposed, p.Proposed...)
		joined.Notes = slices.DeleteFunc(slices.Clone(joined.Notes), func(note string) bool { return !slices.Contains(p.Notes, note) })
	}
	joined.Results = nonNil(joined.Results)
	policy.Sort(joined.Results)
	policy.Sort(joined.Proposed)
	joined.recount()
	return &joined, nil
}

func missingParts(parts map[int]Part, of int) []string {
	var missing []string
	for n := 1; n <= of && len(missing) <= 8; n++ {
		if _, ok := parts[n]; !ok {
			missing = append(missing, fmt.Sprint(n))
		}
	}
	return missing
}

// areMissing returns "3 is", or "3, 4 are".
func areMissing(numbers []string) string {
	if len(numbers) == 1 {
		return numbers[0] + " is"
	}
	return strings.Join(numbers, ", ") + " are"
}

// recount counts the results again.
func (r *Report) recount() {
	s := &r.Summary
	s.Pass, s.Fail, s.Skip, s.Unknown, s.Error, s.New, s.Suppressed = 0, 0, 0, 0, 0, 0, 0
	for x := range r.Others() {
		r.count(x)
	}
}
