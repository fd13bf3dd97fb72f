package admission

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeobject "k8s.io/apimachinery/pkg/runtime"
	upstream "k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/admission/plugin/policy/validating"
	celconfig "k8s.io/apiserver/pkg/apis/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// BenchmarkUpstream is what BenchmarkValidate does, by the API server's own
// validator: the same 20 policies over the same objects, typed as it has them
// and wrapped once an object. Matching is not in it, and is in ours.
func BenchmarkUpstream(b *testing.B) {
	_, theirs, n := besideUpstream(b, 20)
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		theirs(i % n)
	}
	b.ReportMetric(float64(b.N)*60/b.Elapsed().Seconds(), "validations/s")
}

// besideUpstream gives both ways to evaluate one of n objects by the policies.
// Both fail where not all validations pass.
func besideUpstream(b *testing.B, policies int) (ours, theirs func(int), n int) {
	b.Helper()
	e, reqs := benchEngine(b, policies)
	var validators []validating.Validator
	for _, p := range e.policies {
		validators = append(validators, oracle(b, p.compiled.policy))
	}
	attributes := make([]*upstream.VersionedAttributes, len(reqs))
	for i := range reqs {
		attributes[i] = versionedAttributes(b, &reqs[i])
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "prod", Labels: map[string]string{"kubernetes.io/metadata.name": "prod"}}}
	ours = func(i int) {
		if results, err := e.Validate(context.Background(), &reqs[i]); err != nil || !allPass(results, 3*policies) {
			b.Error(len(results), err)
		}
	}
	theirs = func(i int) {
		for _, v := range validators {
			r := v.Validate(context.Background(), reqs[i].Resource.GroupVersionResource, attributes[i], nil, ns, celconfig.RuntimeCELCostBudget, lawyer{})
			for _, d := range r.Decisions {
				if d.Action != validating.ActionAdmit || len(r.Decisions) != 3 {
					b.Error(fmt.Sprint(d))
				}
			}
		}
	}
	return ours, theirs, len(reqs)
}

func allPass(results []policy.Result, want int) bool {
	return len(results) == want && !slices.ContainsFunc(results, func(r policy.Result) bool { return r.Outcome != policy.Pass })
}

// BenchmarkBesideUpstream measures both in turn, in one process, by the time
// that the processors spent on it, garbage included: how many times less ours
// takes, at least and in the median of the rounds. -benchtime 9x is nine
// rounds of all objects; with -cpu 2 two goroutines do the work. object is with
// all that is made of an object for 20 policies, policy without.
func BenchmarkBesideUpstream(b *testing.B) {
	b.Run("object", func(b *testing.B) {
		ours, theirs, n := besideUpstream(b, 20)
		beside(b, ours, theirs, n, 60)
	})
	b.Run("policy", func(b *testing.B) {
		_, theirs, n := besideUpstream(b, 20)
		beside(b, evaluateRead(b, 20, n), theirs, n, 60)
	})
	b.Run("published", func(b *testing.B) {
		ours, theirs, n, validations := publishedSet(b)
		beside(b, ours, theirs, n, validations)
	})
}

// publishedSet are other people's policies, and those of their objects that
// these let pass, each by all policies that match it. validations are those of
// one object in the mean.
func publishedSet(b *testing.B) (ours, theirs func(int), n, validations int) {
	b.Helper()
	var policies, params, objects []*render.Object
	for folder, into := range map[string]*[]*render.Object{"policies": &policies, "params": &params, "resources": &objects} {
		files, _ := filepath.Glob("../../../shared/corpora/kubescape-vap/C-*[0-9]/" + folder + "/*.yaml")
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err != nil {
				b.Fatal(err)
			}
			*into = append(*into, rendertest.Parse(b, file, data)...)
		}
	}
	if len(policies) == 0 {
		b.Skip("../shared/corpora is absent")
	}
	e, _ := New(policies, Options{Kinds: testKinds{}, Cluster: policy.NewCluster(params[0]), AssumeBound: always})
	var runs []func()
	var other [][]func()
	for _, o := range objects {
		mine, their, count := publishedObject(b, e, o, params[0])
		if count == 0 {
			continue
		}
		runs, other = append(runs, mine), append(other, their)
		validations += count
	}
	ours = func(i int) { runs[i]() }
	theirs = func(i int) {
		for _, f := range other[i] {
			f()
		}
	}
	b.Logf("%d policies, %d objects, %d validations", len(e.policies), len(runs), validations)
	return ours, theirs, len(runs), validations / max(1, len(runs))
}

// publishedObject evaluates an object in both ways by the policies that let it pass.
func publishedObject(b *testing.B, e *Engine, o, param *render.Object) (ours func(), theirs []func(), validations int) {
	reqs := requestsAbout(b, e.options.Kinds, o)
	if len(reqs) == 0 {
		return nil, nil, 0
	}
	req, attributes := &reqs[0], versionedAttributes(b, &reqs[0])
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: req.Namespace}}
	value := typed(b, param.Object)
	some := &Engine{options: e.options, family: e.family}
	for _, p := range e.policies {
		all := results{}
		e.evaluate(newReview(context.Background(), e, req), p, &all)
		if len(all.list) == 0 || !allPass(all.list, len(p.validations)) {
			continue
		}
		some.policies, some.rules = append(some.policies, p), some.rules+len(p.validations)
		v := oracle(b, p.policy)
		versioned := runtimeobject.Object(nil)
		if p.policy.Spec.ParamKind != nil {
			versioned = value
		}
		theirs = append(theirs, func() {
			r := v.Validate(context.Background(), req.Resource.GroupVersionResource, attributes, versioned, ns, celconfig.RuntimeCELCostBudget, lawyer{})
			for _, d := range r.Decisions {
				if d.Action != validating.ActionAdmit {
					b.Error(fmt.Sprint(d))
				}
			}
		})
	}
	return func() {
		if results, err := some.Validate(context.Background(), req); err != nil || !allPass(results, some.rules) {
			b.Error(results, err)
		}
	}, theirs, some.rules
}

// evaluateRead evaluates objects that were evaluated before.
func evaluateRead(b *testing.B, policies, n int) func(int) {
	e, reqs := benchEngine(b, policies)
	reviews := make([]*review, n)
	evaluate := func(i int) {
		all := results{expected: e.rules}
		for _, p := range e.policies {
			e.evaluate(reviews[i], p, &all)
		}
		if !allPass(all.list, 3*policies) {
			b.Error(all.list)
		}
	}
	for i := range reviews {
		reviews[i] = newReview(context.Background(), e, &reqs[i])
		evaluate(i)
	}
	return evaluate
}

func beside(b *testing.B, ours, theirs func(int), n, validations int) {
	var ratios, each []float64
	var allocs uint64
	for b.Loop() {
		a, made := spent(n, ours)
		u, _ := spent(n, theirs)
		ratios, each = append(ratios, u.Seconds()/a.Seconds()), append(each, a.Seconds()*1e6/float64(n))
		allocs += made
	}
	slices.Sort(ratios)
	slices.Sort(each)
	b.ReportMetric(ratios[0], "times-less-min")
	b.ReportMetric(ratios[len(ratios)/2], "times-less")
	b.ReportMetric(each[len(each)/2], "µs-CPU")
	b.ReportMetric(float64(allocs)/float64(b.N*n*validations), "allocs/validation")
	b.ReportMetric(0, "ns/op")
}

// spent is the CPU time of evaluating objects, by all processors, and how often
// it allocated.
func spent(objects int, evaluate func(int)) (time.Duration, uint64) {
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	start := cpuTime()
	var group sync.WaitGroup
	for worker := range runtime.GOMAXPROCS(0) {
		group.Go(func() {
			for i := worker; i < objects; i += runtime.GOMAXPROCS(0) {
				evaluate(i)
			}
		})
	}
	group.Wait()
	took := cpuTime() - start
	runtime.ReadMemStats(&after)
	return took, after.Mallocs - before.Mallocs
}

// cpuTime is what the process has used so far.
func cpuTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
