package policy

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestMemo holds that requests about equal objects share what engines remember, and that
// their results are those of requests reviewed alone, each with its own places.
func TestMemo(t *testing.T) {
	t.Parallel()
	const pod = "{apiVersion: v1, kind: Pod, metadata: {name: %s, namespace: %s}, spec: {image: %s}}\n"
	var objects []*render.Object
	for i, text := range []string{
		fmt.Sprintf(pod, "a", "x", "old"), fmt.Sprintf(pod, "a", "z", "old"), "\n" + fmt.Sprintf(pod, "a", "x", "new"),
		"\n\n" + fmt.Sprintf(pod, "a", "x", "old"), "# b\n" + fmt.Sprintf(pod, "a", "z", "old"), fmt.Sprintf(pod, "b", "x", "old"),
	} {
		file := fmt.Sprintf("%d.yaml", i)
		parsed := rendertest.Parse(t, file, text)
		parsed[0].Unit = &render.Unit{Source: render.Source{Path: file, Kind: "manifest"}, Objects: parsed}
		objects = append(objects, parsed...)
	}
	reqs := Requests(nil, objects)

	evaluated := map[string]int{}
	mutator := mutatorFunc(func(req *Request) []Step {
		if known, ok := req.Recall("mutate", req.Admitted); ok {
			return slices.Clone(known.([]Step)) // the chain completes them
		}
		evaluated["mutate"]++
		after := maps.Clone(req.Admitted)
		after["spec"] = map[string]any{"image": req.Admitted["spec"].(map[string]any)["image"], "added": true}
		steps := []Step{{Result: Result{Engine: "e", Policy: "m", Outcome: Pass, Fields: []string{"/spec/added"}}, Admitted: after}}
		req.Remember("mutate", req.Admitted, steps)
		return slices.Clone(steps)
	})
	own := mutatorFunc(func(req *Request) []Step { // of which every unit has a result of its own
		after := maps.Clone(req.Admitted)
		after["unit"] = req.Object.Unit.Path
		if req.Namespace == "z" {
			return nil
		}
		return []Step{{Result: Result{Engine: "e", Policy: "own", Outcome: Pass, Fields: []string{"/unit"}}, Admitted: after}}
	})
	validator := validatorFunc(func(req *Request) []Result {
		known, ok := req.Recall("validate", req.Admitted)
		if !ok {
			evaluated["validate"]++
			known = []Result{{
				Engine: "e", Policy: "v", Outcome: Fail, Action: Deny, Message: fmt.Sprint(req.Admitted), Fields: []string{"/spec/image", "/spec/added"},
			}}
			req.Remember("validate", req.Admitted, known)
		}
		return append(req.Room(), known.([]Result)...)
	})
	chain := Chain{Kinds: plainKinds{}, Mutators: []Mutator{mutator, own}, Validators: []Validator{validator}}
	var want []Result
	for i := range reqs {
		alone, err := chain.Review(t.Context(), reqs[i:i+1])
		rendertest.OK(t, err)
		want = append(want, alone...)
	}
	Sort(want)
	clear(evaluated)
	got, err := chain.Review(t.Context(), reqs)
	rendertest.OK(t, err)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("reviewed alone -, together +\n%s", diff)
	}
	// Of six objects four differ; of two pairs of equal ones, one is changed by unit.
	if diff := cmp.Diff(map[string]int{"mutate": 4, "validate": 5}, evaluated); diff != "" {
		t.Errorf("evaluations (-want +got):\n%s", diff)
	}
}

// TestOrderOfReviews holds that each request is reviewed once, those about equal objects
// next to each other, and not all of very many by one goroutine.
func TestOrderOfReviews(t *testing.T) {
	t.Parallel()
	var reqs []Request
	for i := range 1000 {
		objects := rendertest.Parse(t, "o.yaml", fmt.Appendf(nil, "{apiVersion: v1, kind: ConfigMap, metadata: {name: a%d}, data: {a: '%d'}}", i%7%3, i%7))
		reqs = append(reqs, Requests(nil, objects)...)
	}
	memos, batches := memosOf(reqs)
	seen := make(map[int32]bool)
	for _, batch := range batches {
		of := make(map[*memo]int)
		for k, i := range batch {
			if seen[i] {
				t.Fatalf("request %d is reviewed twice", i)
			}
			seen[i] = true
			if m := memos[i]; m == nil {
				t.Errorf("request %d has no memo", i)
			} else if of[m]++; of[m] > 1 && memos[batch[k-1]] != m {
				t.Errorf("request %d is not reviewed next to its equals", i)
			}
		}
		for m, n := range of {
			if n != m.left || n > mostAlike {
				t.Errorf("%d of %d requests of a memo in one batch", n, m.left)
			}
		}
	}
	if len(seen) != len(reqs) {
		t.Errorf("%d of %d requests", len(seen), len(reqs))
	}
}
