// Package tasks enforces the limits of tasks in a child process. A [Watch] reports to the parent
// (package supervise) which unit, request or policy is running, skips those that ended an earlier
// child, and stops the process if one uses more memory or time than allowed. The package also tunes
// the garbage collector.
package tasks

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
)

// A Watch reports running tasks to the parent, skips tasks that are set apart, and enforces the
// limits of each task. A nil *Watch, for a process without a parent, does nothing.
type Watch struct {
	to     *supervise.Pipe
	Order  supervise.Order
	apart  map[supervise.Work]string // why each is skipped
	limits limits

	mu     sync.Mutex
	next   int
	flying map[int]*Task
	asked  map[*policy.Request]*Task // tasks of running requests
	now    footprint                 // at the last check
	floor  footprint                 // when the phase began, or when the last running task ended
	over   bool
	writes bool           // reports are being written, which is the last phase
	done   map[string]int // finished tasks by prefix of their names
	told   map[string]int // as done, but already reported to the parent

	Unconfined error  // why a part of the sandbox is missing
	confined   string // the arguments of the last ConfineFiles
	unconfined error  // its error

	clock stopwatch

	collector collector
}

// A Task is a running task.
type Task struct {
	supervise.Task
	began  time.Time
	at     footprint // the process when it began
	engine any       // the engine that evaluates the request of this task
	named  bool      // reported to the parent
	extent int       // factor for its time limit; 0 means 1
}

// A footprint is the memory and time that the process uses.
type footprint struct {
	live  uint64        // bytes in use at the last garbage collection
	total uint64        // bytes obtained from the system
	cpu   time.Duration // of all threads

	scanned uint64 // bytes that a garbage collection scans

	collected bool // there was a garbage collection
}

// limits are the limits of one task.
type limits struct {
	memory uint64
	cpu    time.Duration
	wall   time.Duration
}

// Default limits for rendering one unit or evaluating one object.
const (
	DefaultMemory = 1024 // MiB
	DefaultTime   = 20 * time.Second
)

// Grace is how long a run may take to stop after its time has ended.
const Grace = 2 * time.Second

const (
	lookEvery   = 25 * time.Millisecond
	reportEvery = 4 // checks
	longTask    = time.Second
)

// New returns a Watch that reports to the parent at the other end of to.
func New(to *supervise.Pipe, order supervise.Order) *Watch {
	now := look()
	apart := make(map[supervise.Work]string, len(order.Apart))
	for _, a := range order.Apart {
		apart[a.Work] = a.Why
	}
	return &Watch{apart: apart, now: now, floor: now, to: to, Order: order, limits: limits{DefaultMemory << 20, DefaultTime, 3 * DefaultTime}, flying: make(map[int]*Task), done: make(map[string]int), told: make(map[string]int), asked: make(map[*policy.Request]*Task), collector: newCollector()}
}

// Allow sets the limits of one task: memory in MiB, and processor time. Elapsed
// time may be three times as long.
func (w *Watch) Allow(memory int, cpu time.Duration) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.limits = limits{memory: uint64(memory) << 20, cpu: cpu, wall: 3 * cpu}
}

// Disturbed reports whether something is set apart.
func (w *Watch) Disturbed() bool { return w != nil && len(w.Order.Apart) > 0 }

type watchKey struct{}

// With returns a context that holds a Watch.
func With(ctx context.Context, w *Watch) context.Context {
	return context.WithValue(ctx, watchKey{}, w)
}

// Of returns the Watch of a context, nil without a parent.
func Of(ctx context.Context) *Watch {
	w, _ := ctx.Value(watchKey{}).(*Watch)
	return w
}

// Fatal returns the reason why the parent gave up, which this child must only report, or "".
func (w *Watch) Fatal() string {
	if w == nil || w.Order.Fatal == "" {
		return ""
	}
	return w.reason(w.Order.Fatal)
}

// Phase reports the phase of the run between tasks.
func (w *Watch) Phase(name string) {
	if w == nil {
		return
	}
	w.mu.Lock()
	w.floor = w.now
	w.writes = w.writes || name == supervise.Writing
	w.mu.Unlock()
	if name == supervise.Writing {
		confine.CPU(math.MaxInt64) // the parent limits this phase, because a large report takes long
	}
	w.to.Send(supervise.Phase, []byte(name))
}

// Stopping tells the parent, when the run's time has ended and no task is running, that the report
// is being written. For a large run this takes longer than the parent waits for a process that
// hangs.
func (w *Watch) Stopping(ctx context.Context) {
	if !IsTimeUp(ctx, ctx.Err()) {
		return
	}
	for w.busy() {
		time.Sleep(lookEvery)
	}
	w.Phase(supervise.Writing)
}

// ErrTerminated is the error of a run that ends at SIGTERM.
var ErrTerminated = errors.New("ended by a signal")

// IsTimeUp reports whether an error is the end of the run's time, or a signal to end
// with a report.
func IsTimeUp(ctx context.Context, err error) bool {
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) && context.Cause(ctx) == ErrTerminated
}

// Bound returns a context that ends after the timeout. If the process does not
// stop then, the parent ends it and reports what is known.
func (w *Watch) Bound(ctx context.Context, timeout time.Duration) (context.Context, context.CancelFunc) {
	if w.Order.Careful {
		runtime.GOMAXPROCS(1) // one task at a time
	}
	w.send(supervise.Until, timeout.Milliseconds())
	confine.CPU(confine.UsedCPU() + (timeout+Grace)*time.Duration(runtime.NumCPU()))
	left := timeout
	if w.Order.Careful { // earlier children used some of the time
		left = max(timeout-time.Duration(w.Order.Elapsed)*time.Millisecond, time.Second)
	}
	ctx, cancel := context.WithTimeoutCause(ctx, left, fmt.Errorf("not done after --timeout %s", timeout))
	context.AfterFunc(ctx, func() { w.Stopping(ctx) })
	return ctx, cancel
}

// Extend multiplies a task's time limit, for a task that does the work of
// several.
func (w *Watch) Extend(t *Task, times int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	t.extent = times
}

func (w *Watch) busy() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.flying) > 0
}

// Expect reports that n more tasks will begin, whose names have the prefix
// task.
func (w *Watch) Expect(task string, n int) {
	if w != nil {
		w.send(supervise.Expect, supervise.Expected{Task: task, N: n})
	}
}

// Begin starts a task. The caller must call done at its end. narrowest means that no other tasks
// run inside it. If the task must be skipped, Begin returns the reason as an error.
func (w *Watch) Begin(name string, narrowest bool) (done func(), err error) {
	if w == nil {
		return func() {}, nil
	}
	_, done, err = w.Start(name, narrowest)
	return done, err
}

func (w *Watch) Start(name string, narrowest bool) (t *Task, done func(), err error) {
	return w.start(supervise.Work{Name: name}, narrowest)
}

func (w *Watch) start(x supervise.Work, narrowest bool) (t *Task, done func(), err error) {
	if err := w.skips(x); err != nil {
		return nil, nil, err
	}
	w.mu.Lock()
	w.next++
	t = &Task{Task: supervise.Task{Number: w.next, Work: x, Narrowest: narrowest}, began: time.Now(), at: w.now}
	w.flying[t.Number] = t
	w.mu.Unlock()
	if w.Order.Careful || x.Policy != "" {
		w.name(t)
	}
	return t, func() { w.end(t) }, nil
}

// name reports a running task to the parent.
func (w *Watch) name(t *Task) {
	t.named = true
	w.send(supervise.Begin, t.Task)
}

func (w *Watch) end(t *Task) {
	w.settle(t)
	w.mu.Lock()
	if delete(w.flying, t.Number); len(w.flying) == 0 {
		w.floor = w.now // memory that finished tasks still hold does not count for the phase
	}
	if kind, _, _ := strings.Cut(t.Name, " "); t.Engine == "" {
		w.done[kind+" "]++
	}
	named := t.named
	w.mu.Unlock()
	if named {
		w.send(supervise.End, t.Number)
	}
}

// Fails counts failures that were found, for the parent to show. w may be nil.
func (w *Watch) Fails(n int) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.done[supervise.Failures] += n
}

// report reports to the parent the number of finished tasks, and tasks that have been running for
// long. It is used if not every task is reported.
func (w *Watch) report() {
	var done []supervise.Expected
	w.mu.Lock()
	for _, kind := range []string{supervise.RenderTask, supervise.EvaluateTask, supervise.Failures} {
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

// settle collects the garbage of a task that used much memory, because the next
// one may need as much.
func (w *Watch) settle(t *Task) {
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

func (w *Watch) send(k supervise.Kind, v any) {
	if data, err := json.Marshal(v); err == nil {
		w.to.Send(k, data)
	}
}

// Apart returns the reason why a task is set apart, or nil.
func (w *Watch) Apart(name string) error { return w.skips(supervise.Work{Name: name}) }

// skips returns the reason why work is set apart, in its task or in all tasks, or nil.
func (w *Watch) skips(x supervise.Work) error {
	why, found := w.apart[x]
	if !found && x.Engine != "" {
		x.Name = ""
		why, found = w.apart[x]
	}
	if !found {
		return nil
	}
	return &setApart{w.reason(why)}
}

// reason adds the limits, which only the child knows, to a reason of the parent.
func (w *Watch) reason(why string) string {
	switch why {
	case supervise.OutOfMemory:
		return fmt.Sprintf("needs more than %d MiB of memory", w.limits.memory>>20)
	case outOfTime:
		return fmt.Sprintf("takes more than %s of processor time, or %s in all", w.limits.cpu, w.limits.wall)
	}
	return why
}

const outOfTime = "takes too long"

// A setApart is the error of a task that is skipped.
type setApart struct{ why string }

func (s *setApart) Error() string { return s.why }

// KeepLimits checks the resources of the process regularly, and stops it if a task exceeds its
// limits. The kernel enforces the memory limit too, in case memory grows faster than that.
func (w *Watch) KeepLimits() {
	var known uint64
	for n := 1; ; n++ {
		if n%reportEvery == 0 && !w.Order.Careful {
			w.report()
		}
		now := look()
		w.mu.Lock()
		w.now = now
		for _, t := range w.flying { // memory that was in use when the task began may be free now
			t.at.live = min(t.at.live, now.live)
		}
		limit := w.limit()
		x, over := w.excess(now, limit)
		w.over = w.over || over
		w.mu.Unlock()
		if over {
			w.send(supervise.Overrun, x)
			select {} // until the parent ends the process
		}
		if known != limit {
			known = limit
			confine.Memory(limit)
		}
		w.collector.adjust(now, limit)
		time.Sleep(lookEvery)
	}
}

// limit returns how many bytes the process may use now. Between tasks, results of all tasks are
// combined, which may need more than the limit of one task. Writing the reports must not fail
// because of a low task limit, or because of a task that was abandoned at the end of the run's
// time.
func (w *Watch) limit() uint64 {
	const tasks = 4
	switch {
	case w.writes:
		return w.floor.live + tasks*max(w.limits.memory, DefaultMemory<<20)
	case len(w.flying) == 0:
		return w.floor.live + tasks*w.limits.memory
	}
	return w.floorOf().live + w.limits.memory
}

// floorOf returns the memory in use before the running tasks, or the phase, began.
func (w *Watch) floorOf() footprint {
	low := w.floor
	first := true
	for _, t := range w.flying {
		if first || t.at.live < low.live {
			low, first = t.at, false
		}
	}
	return low
}

// excess returns the tasks that exceed their limits.
func (w *Watch) excess(now footprint, limit uint64) (supervise.Excess, bool) {
	if w.over {
		return supervise.Excess{}, false
	}
	tasks := w.innermost()
	if now.total > limit {
		if len(tasks) > 1 || w.writes {
			tasks = nil // any of them may be the reason
		}
		return excess(supervise.OutOfMemory, tasks), true
	}
	if w.writes {
		return supervise.Excess{}, false
	}
	late := slices.DeleteFunc(tasks, func(t *Task) bool {
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
		f.live = f.total // no better estimate yet
	}
	return f
}

func (w *Watch) Close() {
	w.mu.Lock()
	w.over = true
	w.mu.Unlock()
}

// Renderers returns renderers for which each unit is a task.
func (w *Watch) Renderers(all []render.Renderer, side string) []render.Renderer {
	if w == nil {
		return all
	}
	return Around(all, func(ctx context.Context, kind string, src render.Source, next Rendering) ([]*render.Object, error) {
		done, err := w.Begin(strings.TrimSpace(supervise.RenderTask+side+" "+kind+" "+src.Path+" "+src.Variant.String()), true)
		if err != nil {
			return nil, renderApart(render.Span{File: src.Path}, err)
		}
		defer w.Measure("unit " + src.Path)()
		type rendered struct {
			objects []*render.Object
			err     error
		}
		x, err := unlessStuck(ctx, done, func() rendered {
			objects, err := next()
			return rendered{objects, err}
		})
		return x.objects, errors.Join(x.err, err)
	})
}

// A Rendering renders a source.
type Rendering func() ([]*render.Object, error)

// Around returns renderers that call around, which calls next to render.
func Around(all []render.Renderer, around func(ctx context.Context, kind string, src render.Source, next Rendering) ([]*render.Object, error)) []render.Renderer {
	wrapped := make([]render.Renderer, len(all))
	for i, r := range all {
		wrapped[i] = renderer{r, around}
	}
	return wrapped
}

type renderer struct {
	render.Renderer
	around func(context.Context, string, render.Source, Rendering) ([]*render.Object, error)
}

// Render implements render.Renderer.
func (r renderer) Render(ctx context.Context, src render.Source) ([]*render.Object, error) {
	return r.around(ctx, r.Kind(), src, func() ([]*render.Object, error) { return r.Renderer.Render(ctx, src) })
}

// Name returns the unit's name, as the renderer does.
func (r renderer) Name(src render.Source) string {
	if n, ok := r.Renderer.(interface{ Name(render.Source) string }); ok {
		return n.Name(src)
	}
	return path.Base(src.Path)
}

// renderApart returns the error of a unit that is skipped.
func renderApart(at render.Span, why error) *render.Error {
	return &render.Error{Span: at, Rule: "set-apart", Err: fmt.Errorf("rendering it %w: it is skipped", why), Hint: LimitsHint}
}

// unlessStuck calls f, then done, and returns the result of f. If the run's time has ended and f
// does not stop, unlessStuck returns the context's error and leaves f running.
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
	case <-time.After(Grace):
		var none T
		return none, ctx.Err()
	}
}

// Resolvers returns resolvers for which each resolved object is a task.
func (w *Watch) Resolvers(all []render.Resolver, side string) []render.Resolver {
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
	watch *Watch
	side  string
}

// Resolve implements render.Resolver.
func (w watchedResolver) Resolve(ctx context.Context, o *render.Object, world *render.World) *render.Unit {
	failed := func(err error) *render.Unit { return &render.Unit{State: render.Failed, Err: err} }
	done, err := w.watch.Begin(strings.TrimSpace(fmt.Sprintf("resolve %s %s %s %s/%s %s", w.side, world.Cluster.Name, o.GroupVersionKind().GroupKind(), o.GetNamespace(), o.GetName(), world.Variant)), true)
	if err != nil {
		return failed(renderApart(o.Span(""), err))
	}
	u, err := unlessStuck(ctx, done, func() *render.Unit { return w.Resolver.Resolve(ctx, o, world) })
	if err != nil {
		return failed(err)
	}
	return u
}

const LimitsHint = "if it really needs that much, raise --task-memory or --task-time"

// innermost returns the running tasks that have no others inside.
func (w *Watch) innermost() []*Task {
	var narrowest, all []*Task
	for _, t := range w.flying {
		if all = append(all, t); t.Narrowest {
			narrowest = append(narrowest, t)
		}
	}
	if slices.ContainsFunc(narrowest, func(t *Task) bool { return t.Policy == "" }) {
		return narrowest
	}
	return slices.DeleteFunc(slices.Clone(all), func(t *Task) bool {
		return slices.ContainsFunc(all, func(other *Task) bool { return t.Holds(other.Work) })
	})
}

// excess returns the message to the parent about tasks that exceeded a limit.
func excess(why string, tasks []*Task) supervise.Excess {
	x := supervise.Excess{Why: why, Narrowest: true}
	for _, t := range tasks {
		x.Tasks, x.Narrowest = append(x.Tasks, t.narrow()), x.Narrowest && t.Narrowest
	}
	return x
}

// narrow returns the work of the task, with the engine that works on a request.
func (t *Task) narrow() supervise.Work {
	x := t.Work
	if t.engine != nil {
		x.Engine = engineName(t.engine)
	}
	return x
}

// Suites returns the hook for policy tests that makes each suite a task.
func (w *Watch) Suites() func(name string) (func(), error) {
	if w == nil {
		return nil
	}
	return func(name string) (func(), error) { return w.Begin("test "+name, true) }
}

// Requests returns the hook for a policy.Chain that makes each request a task. In a careful child,
// each engine's part of a request is a task too, and each policy's part if the engine is watched
// closely.
func (w *Watch) Requests() policy.Watch {
	if w == nil {
		return nil
	}
	var names sync.Map // names of engines, because getting an engine's rules is slow
	return func(req *policy.Request, engine any) (policy.Watched, error) {
		if engine == nil {
			done, err := w.request(req)
			return policy.Watched{Done: done}, err
		}
		w.mu.Lock()
		t := w.asked[req]
		if t != nil {
			t.engine = engine
		}
		w.mu.Unlock()
		if t == nil || len(w.apart)+len(w.Order.Closely) == 0 && !w.Order.Careful {
			return policy.Watched{}, nil
		}
		name, ok := names.Load(engine)
		if !ok {
			name, _ = names.LoadOrStore(engine, engineName(engine))
		}
		return w.engine(supervise.Work{Name: t.Name, Engine: name.(string)})
	}
}

// engine begins an engine's part of a request.
func (w *Watch) engine(x supervise.Work) (watched policy.Watched, err error) {
	closely := slices.Contains(w.Order.Closely, x.Engine)
	if w.Order.Careful {
		_, watched.Done, err = w.start(x, !closely)
	} else {
		err = w.skips(x)
	}
	if closely {
		watched.Policy = func(name string) (func(), error) {
			x := x
			x.Policy = name
			_, done, err := w.start(x, true)
			return done, err
		}
	}
	return watched, err
}

func (w *Watch) request(req *policy.Request) (func(), error) {
	t, done, err := w.Start(requestName(req), false)
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
