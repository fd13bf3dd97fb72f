package tasks

import (
	"context"
	"io"
	"maps"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/render/rendertest"
)

// TestResultsAreNoTask holds that what a run keeps between tasks may take more
// than a single task: 20,000 objects have results of a gigabyte.
func TestResultsAreNoTask(t *testing.T) {
	w := New(supervise.NewPipe(io.Discard), supervise.Order{})
	w.Allow(100, DefaultTime)
	w.floor = footprint{live: 50 << 20}
	if got, want := w.limit(), uint64(450<<20); got != want {
		t.Errorf("between tasks a run may have %d MiB, want %d", got>>20, want>>20)
	}
	w.now = footprint{live: 400 << 20}
	_, done, err := w.Start("one", true)
	rendertest.OK(t, err)
	defer done()
	if got, want := w.limit(), uint64(500<<20); got != want {
		t.Errorf("with a task a run may have %d MiB, want %d", got>>20, want>>20)
	}
}

// TestReportsOutliveTasks holds that a task that did not stop at the end of the run's time
// does not end the process while it writes the reports, and that those may take more
// than a single task, also if --task-memory is low.
func TestReportsOutliveTasks(t *testing.T) {
	w := New(supervise.NewPipe(io.Discard), supervise.Order{})
	w.Allow(160, time.Second)
	w.now = footprint{live: 80 << 20}
	stuck, done, err := w.Start("stuck", true)
	rendertest.OK(t, err)
	defer done()
	stuck.began = stuck.began.Add(-time.Hour)
	now := footprint{live: 300 << 20, total: 1100 << 20, cpu: stuck.at.cpu + time.Hour}
	if _, over := w.excess(now, w.limit()); !over {
		t.Error("a task may take as much as it likes")
	}
	w.now = now
	w.Phase(supervise.Writing)
	if x, over := w.excess(now, w.limit()); over {
		t.Errorf("the report is not written: %v", x)
	}
	if now.total = 6 << 30; w.limit() > now.total {
		t.Errorf("writing may take %d MiB", w.limit()>>20)
	}
	if x, over := w.excess(now, w.limit()); !over || len(x.Tasks) > 0 {
		t.Errorf("writing takes more than it may: %v, %v", x, over)
	}
}

// TestProgressOfManyTasks holds that the parent of a run that goes well knows how many
// tasks are done and which takes long, and that putting the results of a large run
// together, once its time is over, is not taken for a task that hangs.
func TestProgressOfManyTasks(t *testing.T) {
	from, to := io.Pipe()
	frames := supervise.NewReader(from)
	w := New(supervise.NewPipe(to), supervise.Order{})
	expect := func(kind supervise.Kind, payload string) {
		t.Helper()
		if k, got, err := frames.Next(); err != nil || k != kind || string(got) != payload {
			t.Fatalf("got %c %s %v, want %c %s", k, got, err, kind, payload)
		}
	}
	for range 3 {
		_, done, _ := w.Start(supervise.EvaluateTask+"CREATE a", false)
		done()
	}
	slow, done, _ := w.Start(supervise.EvaluateTask+"CREATE slow", false)
	slow.began = slow.began.Add(-2 * longTask)
	w.Fails(2)
	w.Fails(3)
	go w.report()
	expect(supervise.Begin, `{"Number":4,"Name":"evaluate CREATE slow","Narrowest":false}`)
	expect(supervise.Done, `{"Task":"evaluate ","N":3}`)
	expect(supervise.Done, `{"Task":"failures","N":5}`)
	ctx, cancel := context.WithTimeout(t.Context(), 0)
	defer cancel()
	go w.Stopping(ctx)
	go func() {
		time.Sleep(2 * lookEvery) // what is in flight stops a little later
		done()
	}()
	last := make(map[supervise.Kind]string) // the task's end may be sent a little later than the phase
	for range 2 {
		k, got, err := frames.Next()
		if err != nil {
			t.Fatal(err)
		}
		last[k] = string(got)
	}
	if want := map[supervise.Kind]string{supervise.End: "4", supervise.Phase: supervise.Writing}; !maps.Equal(last, want) {
		t.Errorf("got %v, want %v", last, want)
	}
}

// TestManyPoliciesTakeLonger holds that compiling a library of policies may take as
// long as its parts together, and one task no longer than it did.
func TestManyPoliciesTakeLonger(t *testing.T) {
	w := New(supervise.NewPipe(io.Discard), supervise.Order{})
	w.Allow(1<<20, time.Minute)
	late := func(extent int, cpu, wall time.Duration) bool {
		all, done, err := w.Start("compile policies", false)
		rendertest.OK(t, err)
		defer done()
		w.Extend(all, extent)
		all.began = time.Now().Add(-wall)
		x, over := w.excess(footprint{cpu: all.at.cpu + cpu}, 1)
		return over && x.Why == outOfTime
	}
	if late(14, 10*time.Minute, 40*time.Minute) {
		t.Error("1,300 policies may not take the time of 14 tasks")
	}
	if !late(14, 15*time.Minute, 0) || !late(14, 0, 45*time.Minute) {
		t.Error("1,300 policies may take the time of more than 14 tasks")
	}
	if late(1, 50*time.Second, 2*time.Minute) || !late(1, 70*time.Second, 0) || !late(1, 0, 4*time.Minute) {
		t.Error("a few policies have another limit than a task")
	}
}

// manyRules is an engine that counts how often it lists its rules.
type manyRules struct{ asked int }

func (m *manyRules) Rules() []policy.Rule {
	m.asked++
	return []policy.Rule{{Policy: "first"}}
}

// TestEnginesAreNamedOnce holds that a run in which something is set apart does not have
// engines list their rules for each request.
func TestEnginesAreNamedOnce(t *testing.T) {
	engine := &manyRules{}
	w := New(supervise.NewPipe(io.Discard), supervise.Order{Apart: []supervise.Apart{{Work: supervise.Work{Name: "another"}}}})
	watch := w.Requests()
	for range 3 {
		req := &policy.Request{Object: &render.Object{Unstructured: &unstructured.Unstructured{}}}
		request, err := watch(req, nil)
		rendertest.OK(t, err)
		if _, err := watch(req, engine); err != nil {
			t.Fatal(err)
		}
		request.Done()
	}
	if engine.asked != 1 {
		t.Errorf("the engine listed its rules %d times, want once", engine.asked)
	}
}
