package cel

import (
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/functions"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
	celconfig "k8s.io/apiserver/pkg/apis/cel"
	"k8s.io/apiserver/pkg/cel/common"
	"k8s.io/apiserver/pkg/cel/library"

	"github.com/preadmit/preadmit/policy/internal/patch"
)

// A runner is the environment in which programs of every version run: the functions
// of the newest environment for stored expressions, without its program options,
// which can't be removed.
type runner struct {
	env    *cel.Env
	guards []*functions.Overload // replace functions that hostile values can stall
}

// theRunner is built on first use; it never changes.
var theRunner = sync.OnceValues(newRunner)

func newRunner() (*runner, error) {
	env, err := cel.NewEnv(
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		ext.Strings(ext.StringsVersion(2)),
		ext.Sets(),
		ext.TwoVarComprehensions(),
		ext.Lists(ext.ListsVersion(3)),
		library.URLs(), library.Regex(), library.Lists(library.ListsVersion(1)),
		library.Authz(), library.AuthzSelectors(), library.Quantity(),
		library.IP(), library.CIDR(), library.Format(), library.SemverLib(library.SemverVersion(1)),
		library.JSONPatch(), common.ResolverEnvOption(&patch.Resolver{}),
	)
	if err != nil {
		return nil, err
	}
	guards, err := guardedOverloads(env)
	return &runner{env, guards}, err
}

// RunEnv returns the environment that programs run in, for other evaluators of
// checked expressions. Its functions are not guarded against values that stall them.
func RunEnv() (*cel.Env, error) {
	r, err := theRunner()
	if err != nil {
		return nil, err
	}
	return r.env, nil
}

// plan plans a program under the API server's limit for one evaluation, which can be
// interrupted.
func (r *runner) plan(ast *cel.Ast, more ...cel.ProgramOption) (cel.Program, error) {
	return r.limited(ast, celconfig.PerCallLimit, &library.CostEstimator{}, more...)
}

// limited plans a program whose cost, which costs counts, is limited.
func (r *runner) limited(ast *cel.Ast, limit uint64, costs interpreter.ActualCostEstimator, more ...cel.ProgramOption) (cel.Program, error) {
	return r.env.Program(ast, append([]cel.ProgramOption{
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost), cel.OptimizeRegex(guardedRegexes()...), cel.Functions(r.guards...), weighed(),
		cel.CostLimit(limit), cel.CostTracking(costs), cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)),
		cel.InterruptCheckFrequency(celconfig.CheckFrequency),
	}, more...)...)
}
