package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"path"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/preadmit/preadmit/cmd/preadmit/confine"
	"github.com/preadmit/preadmit/cmd/preadmit/supervise"
	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/render"
	"github.com/preadmit/preadmit/report"
)

// A watch tells a parent which task is in flight, leaves out those that are set
// apart, and holds each to its limits. A nil watch, that of a process without a
// parent, does nothing.
type watch struct {
	to     *supervise.Pipe
	order  supervise.Order
	limits taskLimits

	mu     sync.Mutex
	next   int
	flying map[int]*task
	asked  map[*policy.Request]*task // of requests
	now    footprint                 // as of the last look
	floor  footprint                 // when the phase began, or a task ended and none was left
	over   bool
	done   map[string]int // tasks by how their names begin
	told   map[string]int // what the parent knows of done

	unconfined error // what of the sandbox is missing

	clock stopwatch

	collector collector
}

// A task is what is in flight.
type task struct {
	supervise.Task
	began  time.Time
	at     footprint // the process when it began
	engine any       // of a request: the one that is asked
	named  bool      // the parent knows that it is in flight
	extent int       // how many times a task's time it may take; 0 is once
}

// A footprint is what the process takes.
type footprint struct {
	live  uint64        // bytes that the last garbage collection found in use
	total uint64        // bytes that it has of the system
	cpu   time.Duration // of all threads

	scanned uint64 // bytes that a garbage collection has to look through

	collected bool // there was a garbage collection
}

// taskLimits are what one task may take.
type taskLimits struct {
	memory uint64
	cpu    time.Duration
	wall   time.Duration
}

const (
	lookEvery   = 25 * time.Millisecond
	reportEvery = 4 // looks
	longTask    = time.Second
)

func newWatch(to *supervise.Pipe, order supervise.Order) *watch {
	now := look()
	return &watch{now: now, floor: now, to: to, order: order, limits: taskLimits{defaultTaskMemory << 20, defaultTaskTime, 3 * defaultTaskTime}, flying: make(map[int]*task), done: make(map[string]int), told: make(map[string]int), asked: make(map[*policy.Request]*task), collector: newCollector()}
}

// allow sets what one task may take: MiB, and a time of the processor, of which
// thrice may pass.
func (w *watch) allow(memory int, cpu time.Duration) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limits = taskLimits{memory: uint64(memory) << 20, cpu: cpu, wall: 3 * cpu}
}

// disturbed says whether something is set apart.
func (w *watch) disturbed() bool { return w != nil && len(w.order.Apart) > 0 }

type watchKey struct{}

func withWatch(ctx context.Context, w *watch) context.Context {
	return context.WithValue(ctx, watchKey{}, w)
}

func watchOf(ctx context.Context) *watch {
	w, _ := ctx.Value(watchKey{}).(*watch)
	return w
}

// fatal returns why the parent gave up starting children for the work, so that this
// child only reports it; empty otherwise.
func (w *watch) fatal() string {
	if w == nil || w.order.Fatal == "" {
		return ""
	}
	return w.reason(w.order.Fatal)
}

// phase says what the run does between tasks.
func (w *watch) phase(name string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.floor = w.now
	w.mu.Unlock()
	if name == supervise.Writing {
		confine.CPU(math.MaxInt64) // the parent bounds it: a large report takes its time
	}
	w.to.Send(supervise.Phase, []byte(name))
}

// stopping tells the parent, once the run's time is over and no task is in flight any
// more, that what is done is put together. Of a large run that takes longer than the
// parent waits for one that hangs.
func (w *watch) stopping(ctx context.Context) {
	if !isTimeUp(ctx, ctx.Err()) {
		return
	}
	for w.busy() {
		time.Sleep(lookEvery)
	}
	w.phase(supervise.Writing)
}

func (w *watch) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.flying) > 0
}

// expect says that n more tasks are to be done whose names begin so.
func (w *watch) expect(task string, n int) {
	if w != nil {
		w.send(supervise.Expect, supervise.Expected{Task: task, N: n})
	}
}

// begin says that a task is in flight until done is called. The narrowest tasks
// are those that have no tasks within them. The error is why it is set apart.
func (w *watch) begin(name string, narrowest bool) (done func(), err error) {
	if w == nil {
		return func() {}, nil
	}
	_, done, err = w.start(name, narrowest)
	return done, err
}

func (w *watch) start(name string, narrowest bool) (t *task, done func(), err error) {
	if why, apart := w.apart(name); apart {
		return nil, nil, &setApart{why}
	}
	w.mu.Lock()
	w.next++
	t = &task{Task: supervise.Task{Number: w.next, Name: name, Narrowest: narrowest}, began: time.Now(), at: w.now}
	w.flying[t.Number] = t
	w.mu.Unlock()
	if w.order.Careful {
		w.name(t)
	}
	return t, func() { w.end(t) }, nil
}

// name tells the parent that a task is in flight.
func (w *watch) name(t *task) {
	t.named = true
	w.send(supervise.Begin, t.Task)
}

func (w *watch) end(t *task) {
	w.settle(t)
	w.mu.Lock()
	if delete(w.flying, t.Number); len(w.flying) == 0 {
		w.floor = w.now // what tasks leave behind is not the phase's
	}
	if kind, _, _ := strings.Cut(t.Name, " "); !strings.Contains(t.Name, supervise.By) {
		w.done[kind+" "]++
	}
	named := t.named
	w.mu.Unlock()
	if named {
		w.send(supervise.End, t.Number)
	}
}

// report tells the parent of a child that is not careful how many tasks are done,
// and which have been in flight for long.
func (w *watch) report() {
	var done []supervise.Expected
	w.mu.Lock()
	for _, kind := range []string{supervise.RenderTask, supervise.EvaluateTask} {
		if n := w.done[kind]; n != w.told[kind] {
			w.told[kind] = n
			done = append(done, supervise.Expected{Task: kind, N: n})
		}
	}
	for _, t := range w.flying {
		if !t.named && time.Since(t.began) > longTask {
			w.name(t)
		}
	}
	w.mu.Unlock()
	for _, x := range done {
		w.send(supervise.Done, x)
	}
}

// settle collects what a task that took much leaves behind, since the next may
// take as much beside it.
func (w *watch) settle(t *task) {
	w.mu.Lock()
	much := w.now.live > t.at.live+w.limits.memory/4
	w.mu.Unlock()
	if !much {
		return
	}
	runtime.GC()
	w.mu.Lock()
	w.now = look()
	w.mu.Unlock()
}

func (w *watch) send(k supervise.Kind, v any) {
	if data, err := json.Marshal(v); err == nil {
		w.to.Send(k, data)
	}
}

func (w *watch) apart(name string) (why string, apart bool) {
	i, found := slices.BinarySearchFunc(w.order.Apart, name, func(a supervise.Apart, name string) int {
		return strings.Compare(a.Task, name)
	})
	if !found {
		return "", false
	}
	return w.reason(w.order.Apart[i].Why), true
}

// reason gives a parent's words with the limits that a child knows.
func (w *watch) reason(why string) string {
	switch why {
	case supervise.OutOfMemory:
		return fmt.Sprintf("needs more than %d MiB of memory", w.limits.memory>>20)
	case outOfTime:
		return fmt.Sprintf("takes more than %s of processor time, or %s in all", w.limits.cpu, w.limits.wall)
	}
	return why
}

const outOfTime = "takes too long"

// A setApart is the error of a task that is not begun.
type setApart struct{ why string }

func (e *setApart) Error() string { return e.why }

// keepLimits looks at what the process takes, and stops it where a task takes
// more than it may. The kernel holds the same line for what comes at once.
func (w *watch) keepLimits() {
	var known uint64
	for n := 1; ; n++ {
		if n%reportEvery == 0 && !w.order.Careful {
			w.report()
		}
		now := look()
		w.mu.Lock()
		w.now = now
		for _, t := range w.flying { // what others held when it began may be free now
			t.at.live = min(t.at.live, now.live)
		}
		limit := w.limit()
		x, over := w.excess(now, limit)
		w.over = w.over || over
		w.mu.Unlock()
		if over {
			w.send(supervise.Overrun, x)
			select {} // for the parent to end
		}
		if known != limit {
			known = limit
			confine.Memory(limit)
		}
		w.collector.adjust(now, limit)
		time.Sleep(lookEvery)
	}
}

// limit is how many bytes the process may take now. Between tasks the results of
// all of them are put together, which a single task's limit says nothing about.
func (w *watch) limit() uint64 {
	const tasks = 4
	if len(w.flying) == 0 {
		return w.floor.live + tasks*w.limits.memory
	}
	return w.floorOf().live + w.limits.memory
}

// floorOf is what was in use before the tasks in flight, or the phase, began.
func (w *watch) floorOf() footprint {
	low := w.floor
	first := true
	for _, t := range w.flying {
		if first || t.at.live < low.live {
			low, first = t.at, false
		}
	}
	return low
}

// excess is what takes more than it may.
func (w *watch) excess(now footprint, limit uint64) (supervise.Excess, bool) {
	if w.over {
		return supervise.Excess{}, false
	}
	tasks := w.innermost()
	if now.total > limit {
		if len(tasks) > 1 {
			tasks = nil // any of them may be why
		}
		return excess(supervise.OutOfMemory, tasks), true
	}
	late := slices.DeleteFunc(tasks, func(t *task) bool {
		share, times := (now.cpu-t.at.cpu)/time.Duration(max(1, len(w.flying))), time.Duration(max(1, t.extent))
		return share <= times*w.limits.cpu && time.Since(t.began) <= times*w.limits.wall
	})
	return excess(outOfTime, late), len(late) > 0
}

func look() footprint {
	s := []metrics.Sample{{Name: "/memory/classes/total:bytes"}, {Name: "/memory/classes/heap/released:bytes"}, {Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/heap:bytes"}}
	metrics.Read(s)
	f := footprint{live: s[2].Value.Uint64(), total: s[0].Value.Uint64() - s[1].Value.Uint64(), cpu: confine.UsedCPU(), scanned: s[3].Value.Uint64()}
	if f.collected = f.live > 0; !f.collected {
		f.live = f.total // nobody knows better yet
	}
	return f
}

func (w *watch) close() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
}

// renderers are the same, each unit a task.
func (w *watch) renderers(all []render.Renderer, side string) []render.Renderer {
	if w == nil {
		return all
	}
	watched := make([]render.Renderer, len(all))
	for i, r := range all {
		watched[i] = watchedRenderer{r, w, side}
	}
	return watched
}

type watchedRenderer struct {
	render.Renderer
	watch *watch
	side  string
}

func (r watchedRenderer) Render(ctx context.Context, src render.Source) ([]*render.Object, error) {
	done, err := r.watch.begin(strings.TrimSpace(supervise.RenderTask+r.side+" "+r.Kind()+" "+src.Path+" "+src.Variant.String()), true)
	if err != nil {
		return nil, renderApart(render.Span{File: src.Path}, err)
	}
	defer r.watch.clock.start(timed{name: "unit " + src.Path})()
	type rendered struct {
		objects []*render.Object
		err     error
	}
	x, err := unlessStuck(ctx, done, func() rendered {
		objects, err := r.Renderer.Render(ctx, src)
		return rendered{objects, err}
	})
	return x.objects, errors.Join(x.err, err)
}

// renderApart is the error of a unit that is set apart.
func renderApart(at render.Span, why error) *render.Error {
	return &render.Error{Span: at, Rule: "set-apart", Err: fmt.Errorf("rendering it %w: it is set apart", why), Hint: limitsHint}
}

// unlessStuck returns what f returns, after which done is called. Where the run's
// time is over and f does not stop, it is left behind; the error says so.
func unlessStuck[T any](ctx context.Context, done func(), f func() T) (T, error) {
	result := make(chan T, 1)
	go func() {
		defer done()
		result <- f()
	}()
	select {
	case x := <-result:
		return x, nil
	case <-ctx.Done():
	}
	select {
	case x := <-result:
		return x, nil
	case <-time.After(grace):
		var none T
		return none, ctx.Err()
	}
}

// resolvers are the same, each object that they resolve a task.
func (w *watch) resolvers(all []render.Resolver, side string) []render.Resolver {
	if w == nil {
		return all
	}
	watched := make([]render.Resolver, len(all))
	for i, r := range all {
		watched[i] = watchedResolver{r, w, side}
	}
	return watched
}

type watchedResolver struct {
	render.Resolver
	watch *watch
	side  string
}

// Resolve implements render.Resolver.
func (r watchedResolver) Resolve(ctx context.Context, o *render.Object, world *render.World) *render.Unit {
	failed := func(err error) *render.Unit { return &render.Unit{State: render.Failed, Err: err} }
	done, err := r.watch.begin(strings.TrimSpace(fmt.Sprintf("resolve %s %s %s %s/%s %s", r.side, world.Cluster.Name, o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName(), world.Variant)), true)
	if err != nil {
		return failed(renderApart(o.Span(""), err))
	}
	u, err := unlessStuck(ctx, done, func() *render.Unit { return r.Resolver.Resolve(ctx, o, world) })
	if err != nil {
		return failed(err)
	}
	return u
}

// Name is the unit's, as the renderer has it.
func (r watchedRenderer) Name(src render.Source) string {
	if n, ok := r.Renderer.(interface{ Name(render.Source) string }); ok {
		return n.Name(src)
	}
	return path.Base(src.Path)
}

const limitsHint = "where it is meant to take that much, allow more by --task-memory or --task-time"

// innermost are the tasks in flight that have no other in flight within them.
func (w *watch) innermost() []*task {
	var narrowest, all []*task
	for _, t := range w.flying {
		if all = append(all, t); t.Narrowest {
			narrowest = append(narrowest, t)
		}
	}
	if len(narrowest) > 0 {
		return narrowest
	}
	return all
}

// excess is what a parent is told where tasks are known to be why.
func excess(why string, tasks []*task) supervise.Excess {
	x := supervise.Excess{Why: why, Narrowest: true}
	for _, t := range tasks {
		x.Tasks, x.Narrowest = append(x.Tasks, t.narrow()), x.Narrowest && t.Narrowest
	}
	slices.Sort(x.Tasks)
	return x
}

// narrow is the task's name, with the engine that a request is at.
func (t *task) narrow() string {
	if t.engine == nil || t.Narrowest {
		return t.Name
	}
	return t.Name + byEngine(t.engine)
}

func byEngine(engine any) string { return supervise.By + engineName(engine) }

// suites is the hook of policy tests: each suite is a task.
func (w *watch) suites() func(name string) (func(), error) {
	if w == nil {
		return nil
	}
	return func(name string) (func(), error) { return w.begin("test "+name, true) }
}

// requests is the hook of a chain: each request is a task, and so is each
// engine's part in one that is looked at closely or has a part set apart.
func (w *watch) requests() policy.Watch {
	if w == nil {
		return nil
	}
	return func(req *policy.Request, engine any) (func(), error) {
		if engine == nil {
			return w.request(req)
		}
		w.mu.Lock()
		t := w.asked[req]
		if t != nil {
			t.engine = engine
		}
		w.mu.Unlock()
		if t == nil || len(w.order.Apart) == 0 && !w.order.Careful {
			return nil, nil
		}
		if why, apart := w.apart(byEngine(engine)); apart {
			return nil, &setApart{why}
		}
		name := t.Name + byEngine(engine)
		if w.order.Careful {
			return w.begin(name, true)
		}
		if why, apart := w.apart(name); apart {
			return nil, &setApart{why}
		}
		return nil, nil
	}
}

func (w *watch) request(req *policy.Request) (func(), error) {
	t, done, err := w.start(requestName(req), false)
	if err != nil {
		return nil, err
	}
	w.mu.Lock()
	w.asked[req] = t
	w.mu.Unlock()
	return func() {
		w.mu.Lock()
		delete(w.asked, req)
		w.mu.Unlock()
		done()
	}, nil
}

func requestName(req *policy.Request) string {
	k := req.Subject().Key()
	return fmt.Sprintf(supervise.EvaluateTask+"%s %s %s %s %s/%s", req.Operation, k.Unit, k.APIVersion, k.Kind, k.Namespace, k.Name)
}

func engineName(engine any) string {
	name := fmt.Sprintf("%T", engine)
	if r, ok := engine.(interface{ Rules() []policy.Rule }); ok {
		if rules := r.Rules(); len(rules) > 0 {
			name += " " + rules[0].Policy
		}
	}
	return name
}

// failedReport is the report of a run that came to nothing. The hint may be empty.
func failedReport(why, hint string) *report.Report {
	return report.New(report.Tool{Name: "preadmit", Version: version}, nil, nil, failure(why, hint))
}

// failure is the result that says that a run is incomplete, with the next step.
func failure(why, hint string) []policy.Result {
	return []policy.Result{{
		Engine: policy.EngineRender, Rule: policy.RuleIncomplete, Operation: policy.Create, Outcome: policy.Error, Action: policy.Deny,
		Message: "the run is incomplete: " + why, Hint: hint,
	}}
}
