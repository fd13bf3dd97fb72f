package policy

import "context"

// Divide divides requests into those that would change nothing and the others. No deployer sends the
// former, so they become requests that create the objects, as in a check without a base.
func Divide(reqs []Request) (same, changed []Request) {
	same, changed = Split(reqs, (*Request).Unchanged)
	for i := range same {
		same[i].Operation, same[i].OldObject = Create, nil
	}
	return same, changed
}

// Split returns the requests for which is returns true, and the others.
func Split(reqs []Request, is func(*Request) bool) (these, others []Request) {
	yes := make([]bool, len(reqs))
	n := 0
	for i := range reqs {
		if yes[i] = is(&reqs[i]); yes[i] {
			n++
		}
	}
	these, others = make([]Request, 0, n), make([]Request, 0, len(reqs)-n)
	for i := range reqs {
		if yes[i] {
			these = append(these, reqs[i])
		} else {
			others = append(others, reqs[i])
		}
	}
	return these, others
}

// StoreOld replaces the old objects of requests by what the API server holds
// after the base is applied: defaulted, mutated and prepared. The error is not nil only
// if ctx is done or there is a bug.
func (c Chain) StoreOld(ctx context.Context, reqs []Request) error {
	var creates []Request
	var at []int
	for i := range reqs {
		if reqs[i].OldObject != nil {
			creates = append(creates, Request{Operation: Create, Object: reqs[i].OldObject, UserInfo: reqs[i].UserInfo})
			at = append(at, i)
		}
	}
	c.storing = true
	stored, _, err := c.Stored(ctx, creates)
	if err != nil {
		return err
	}
	for i, o := range stored {
		reqs[at[i]].OldObject = o
	}
	return nil
}

// Reapplying returns the requests that apply the base's objects again, as
// written there. Their results are the state before the change. Requests that create an object instead
// of one of the base come last.
//
// An object that is recreated has two requests, and its CREATE is the one that counts.
func Reapplying(reqs []Request) []Request {
	var before, created []Request
	for _, r := range reqs {
		switch {
		case r.Recreated && r.Operation == Delete:
		case r.OldObject != nil:
			r.Operation, r.Object = Update, r.OldObject
			if stored, ok := r.OldObject.Provenance.(mutated); ok {
				r.Object = stored.rendered
			}
			before = append(before, r)
		case r.Instead != nil:
			r.Object, r.Instead, r.Recreated = r.Instead, nil, false
			created = append(created, r)
		}
	}
	return append(before, created...)
}

// InBase returns the results of the head about objects that the change does not touch, with the
// units of the objects in the base.
func (c Comparison) InBase(head []Result) (was []Result) {
	for _, r := range head {
		if update := c.update(r.Object); update != nil && update.Unchanged() {
			r.Object.Unit = c.BaseUnit(r.Object)
			was = append(was, r)
		}
	}
	return was
}
