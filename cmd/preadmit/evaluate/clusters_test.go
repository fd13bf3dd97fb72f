package evaluate

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/preadmit/preadmit/cmd/preadmit/engines"
	"github.com/preadmit/preadmit/cmd/preadmit/load"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
)

// TestTimeUpAmongClusters holds that a run whose time is over reports the failures
// that it found on each cluster, and what it found in rendering once.
func TestTimeUpAmongClusters(t *testing.T) {
	t.Parallel()
	broken := policy.Result{Engine: policy.EngineRender, Rule: "broken", Outcome: policy.Error, Message: "not read"}
	in := &load.Input{
		Head:  []*render.Unit{{Name: "a", Cluster: "production"}, {Name: "b", Cluster: "staging"}, {Name: "c", Cluster: "testing"}},
		Found: []policy.Result{broken},
	}
	ctx, cancel := context.WithDeadline(t.Context(), time.Time{})
	defer cancel()
	var j Evaluation
	err := j.eachCluster(t.Context(), engines.Options{Settings: &engines.Settings{}}, nil, in, func(j *Evaluation, _ engines.Options, on func(*load.Input) *load.Input) error {
		name := on(in).Head[0].Cluster
		j.Results = []policy.Result{{Rule: name, Outcome: policy.Fail, Object: render.Key{Kind: "Pod"}}}
		if name == "staging" {
			return context.DeadlineExceeded
		}
		j.Engines = &engines.Set{Said: []policy.Rule{{Name: name}}}
		j.Results = append(j.Results, broken)
		return nil
	})
	if err = j.Unfinished(ctx, in, err, func() string { return "" }); err != nil {
		t.Fatal(err)
	}
	var rules []string
	for _, r := range j.Results {
		rules = append(rules, r.Rule)
	}
	if d := cmp.Diff([]string{"broken", "production", "staging", policy.RuleIncomplete}, rules); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
	if said := j.Engines.Rules(); len(said) != 1 || said[0].Name != "production" {
		t.Errorf("rules: %v", said)
	}
}
