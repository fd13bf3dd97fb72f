package policy

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/render"
)

// A Baseline compares a result with those of the base.
type Baseline string

// The baselines, as in SARIF's baselineState.
const (
	New       Baseline = "new"       // the change causes it
	Unchanged Baseline = "unchanged" // the base has it too
	Absent    Baseline = "absent"    // the base had it, the head does not

	AlreadyFailing Baseline = "already-failing" // the base has it too, and the API server refuses the change for it
)

// Counts reports whether a result with this baseline counts.
func (b Baseline) Counts() bool { return b != Unchanged && b != Absent }

// Rules of results of EngineRender. The first two say that the run itself ended early.
const (
	RuleIncomplete      = "incomplete-run"   // not everything was evaluated
	RuleOutOfTime       = "out-of-time"      // the unit was not rendered within --timeout
	RuleStillReferenced = "still-referenced" // the object names one that the change deletes
)

// Incomplete is the result that says that a run is incomplete, with the next step.
func Incomplete(why, hint string) []Result {
	return []Result{{
		Engine: EngineRender, Rule: RuleIncomplete, Operation: Create, Outcome: Error, Action: Deny,
		Message: "the run is incomplete: " + why, Hint: hint,
	}}
}

// CutShort reports whether the result says that the run ended early. Such results
// of the base and the head are never equal: they say nothing about the objects.
func (r *Result) CutShort() bool {
	return r.Engine == EngineRender && (r.Rule == RuleIncomplete || r.Rule == RuleOutOfTime)
}

// Requests returns the requests that change a cluster from the base objects to
// the head objects: CREATEs and UPDATEs in the order of head, then DELETEs in
// the order of base. Without base objects they are all CREATEs. Objects are the
// same if their group, kind, effective namespace, name and unit are; an object that
// differs only in its unit has moved, if no other has its name. Objects with
// generateName are created each time and never deleted; their requests name what
// the base creates instead. So do those of objects whose names differ only in the hash
// of their content, whose DELETEs and CREATEs are Recreated.
func Requests(base, head []*render.Object) []Request {
	ids := NewIdentities(base, head)
	was, hashed := ids.counterparts(base, head)
	replaced := make(map[*render.Object]bool, len(hashed))
	reqs := make([]Request, 0, len(head))
	stays := make(map[*render.Object]bool, len(was))
	instead := ids.generatedInstead(base, head)
	for _, o := range head {
		r := Request{Operation: Create, Object: o, Instead: cmp.Or(hashed[o], instead[o]), Recreated: hashed[o] != nil}
		replaced[hashed[o]] = true
		if old := was[o]; old != nil {
			r.Operation, r.OldObject = Update, old
			stays[old] = true
		}
		reqs = append(reqs, r)
	}
	for _, o := range base {
		if !stays[o] && o.GetName() != "" {
			reqs = append(reqs, Request{Operation: Delete, OldObject: o, Recreated: replaced[o]})
		}
	}
	return reqs
}

// An Identity identifies an object to the API server, with its cluster and unit.
// Objects of base and head with the same Identity are the same object. Objects
// that nothing deploys are on no cluster, so they are never the same as
// deployed ones. Namespace is the effective one, or empty if the kind is cluster-scoped.
type Identity struct {
	schema.GroupKind
	Namespace, Name string
	Cluster, Unit   string
	Unreached       bool
}

// Identities makes each Identity. It remembers whether kinds are namespaced.
type Identities map[schema.GroupKind]bool

// NewIdentities returns Identities that know the scope of the kinds that the objects define.
func NewIdentities(sides ...[]*render.Object) Identities {
	k := make(Identities)
	for _, o := range slices.Concat(sides...) {
		if gk, ok := render.Defines(o); ok {
			scope, _ := render.Lookup(o.Object, "/spec/scope")
			k[gk] = scope != "Cluster"
		}
	}
	return k
}

// Undeletable reports whether an object is a Namespace that the API server never deletes (its plugin NamespaceLifecycle).
func Undeletable(o *render.Object) bool {
	immortal := []string{metav1.NamespaceDefault, metav1.NamespaceSystem, metav1.NamespacePublic}
	return o.GroupVersionKind().GroupKind() == schema.GroupKind{Kind: "Namespace"} && slices.Contains(immortal, o.GetName())
}

// namespaced reports whether objects of a kind have a namespace, as far as that is known.
func (k Identities) namespaced(o *render.Object, gk schema.GroupKind) bool {
	is, known := k[gk]
	if !known {
		is = !render.ClusterScoped(gk) && ResourceOf(o.GroupVersionKind()).Namespaced
		k[gk] = is
	}
	return is
}

// Of returns the identity of an object. As in [render.Object.Key], a generated name ends with "*".
func (k Identities) Of(o *render.Object) Identity {
	key := o.Key()
	id := Identity{GroupKind: stored(o.GroupVersionKind().GroupKind()), Namespace: key.Namespace, Name: key.Name, Unit: key.Unit}
	if id.Namespace == "" && k.namespaced(o, id.GroupKind) {
		id.Namespace = o.HomeNamespace()
	}
	if o.Unit != nil {
		id.Cluster, id.Unreached = o.Unit.Cluster, o.Unit.State == render.Unreached
	}
	return id
}

// stored returns the kind under which the API server stores objects of a kind. It stores those of the group
// extensions under the groups that replaced it (AddCohabitatingResources in Kubernetes'
// pkg/kubeapiserver/default_storage_factory_builder.go).
func stored(kind schema.GroupKind) schema.GroupKind {
	if kind.Group == "extensions" {
		switch kind.Kind {
		case "Deployment", "DaemonSet", "ReplicaSet":
			kind.Group = "apps"
		case "Ingress", "NetworkPolicy":
			kind.Group = "networking.k8s.io"
		case "PodSecurityPolicy":
			kind.Group = "policy"
		}
	}
	return kind
}

// Key returns the key of an object with its effective namespace, as results have it.
func (k Identities) Key(o *render.Object) render.Key {
	key := o.Key()
	if k.namespaced(o, o.GroupVersionKind().GroupKind()) {
		key.Namespace = o.EffectiveNamespace()
	}
	return key
}

// Anywhere returns the identity without the cluster and the unit.
func (id Identity) Anywhere() Identity {
	id.Cluster, id.Unit = "", ""
	return id
}

// generatedInstead returns the base object of head objects with generateName: an equal one,
// else the only other one with the same prefix, if the head has no other, either.
func (k Identities) generatedInstead(base, head []*render.Object) map[*render.Object]*render.Object {
	was, stays := make(map[*render.Object]*render.Object), make(map[*render.Object]bool)
	generated := func(objects []*render.Object) map[Identity][]*render.Object {
		all := make(map[Identity][]*render.Object)
		for _, o := range objects {
			if o.GetName() == "" {
				all[k.Of(o)] = append(all[k.Of(o)], o)
			}
		}
		return all
	}
	olds := generated(base)
	for id, changed := range generated(head) {
		changed = slices.DeleteFunc(changed, func(o *render.Object) bool {
			i := slices.IndexFunc(olds[id], func(old *render.Object) bool { return reflect.DeepEqual(old.Object, o.Object) })
			if i >= 0 {
				was[o], stays[olds[id][i]] = olds[id][i], true
			}
			return i >= 0
		})
		if rest := slices.DeleteFunc(olds[id], func(o *render.Object) bool { return stays[o] }); len(changed) == 1 && len(rest) == 1 {
			was[changed[0]] = rest[0]
		}
	}
	return was
}

// counterparts returns the base object of each head object that has one. hashed are those of the
// others whose names differ only in the hash of their content.
func (k Identities) counterparts(base, head []*render.Object) (was, hashed map[*render.Object]*render.Object) {
	if len(base) == 0 {
		return nil, nil
	}
	was, hashed = make(map[*render.Object]*render.Object, len(base)), make(map[*render.Object]*render.Object)
	base, head = match(was, base, head, k.Of)
	base, head = match(was, base, head, func(o *render.Object) Identity {
		id := k.Of(o)
		id.Unit = ""
		return id
	})
	lasts := func(o *render.Object) bool { return lastingName(o.Key()) == o.GetName() }
	match(hashed, slices.DeleteFunc(base, lasts), slices.DeleteFunc(head, lasts), func(o *render.Object) Identity {
		id := k.Of(o)
		id.Name = lastingName(o.Key())
		return id
	})
	return was, hashed
}

// match pairs the objects whose Identity is unique on both sides, and returns
// the others. If a unit wrongly has several, the first are paired with the
// first.
func match(was map[*render.Object]*render.Object, base, head []*render.Object, of func(*render.Object) Identity) (oldRest, newRest []*render.Object) {
	old, ids, heads := make(map[Identity][]*render.Object, len(base)), make([]Identity, len(head)), make(map[Identity]int)
	for _, o := range base {
		if o.GetName() != "" {
			id := of(o)
			old[id] = append(old[id], o)
		}
	}
	for i, o := range head {
		if ids[i] = of(o); ids[i].Unit == "" && o.GetName() != "" {
			heads[ids[i]]++
		}
	}
	paired := make(map[*render.Object]bool, len(base))
	for i, o := range head {
		id := ids[i]
		same := old[id]
		if o.GetName() == "" || len(same) == 0 || id.Unit == "" && (heads[id] > 1 || len(same) > 1) {
			newRest = append(newRest, o)
			continue
		}
		was[o], paired[same[0]], old[id] = same[0], true, same[1:]
	}
	return slices.DeleteFunc(slices.Clone(base), func(o *render.Object) bool { return paired[o] }), newRest
}

// Unchanged reports whether the base makes the same request, or an update would
// change nothing, so that the API server would not be asked. Line numbers don't count. What only other
// installations of the base have is created all the same.
func (r *Request) Unchanged() bool {
	old := r.inBase()
	if r.Run != OtherRun && r.Operation == Create && r.Object.GetName() != "" {
		return false
	}
	return old != nil && r.Object != nil && !r.Recreated && reflect.DeepEqual(old.Object, r.Object.Object)
}

// Recreating returns the requests that delete the object of an update and create it again.
func (r Request) Recreating() []Request {
	gone, again := r, r
	gone.Operation, gone.Object, gone.Recreated = Delete, nil, true
	again.Operation, again.OldObject, again.Instead, again.Recreated = Create, nil, r.OldObject, true
	return []Request{gone, again}
}

// inBase returns the base's version of the request's object, or nil.
func (r *Request) inBase() *render.Object { return cmp.Or(r.OldObject, r.Instead) }

// A Comparison compares results of the head with those of the base.
type Comparison struct {
	// Base are the results of the base. Those with a Suppression are accepted there.
	Base []Result
	// Updates are the requests for objects that the base has in another version, by
	// the key of the head's object; see [Updates].
	Updates map[render.Key]*Request
	// Incomparable reports whether the other side of a unit was rendered only
	// in part, so that a missing result there says nothing.
	Incomparable func(unit string) bool
	// Stopped are the units that the head lacks only because something could
	// not be rendered: their own errors are not fixed.
	Stopped map[string]bool
}

// Updates returns the requests for a Comparison whose objects the base has, too.
func Updates(reqs []Request) map[render.Key]*Request {
	updates := make(map[render.Key]*Request)
	for i := range reqs {
		if r := &reqs[i]; r.Object != nil && r.inBase() != nil && r.Run != OtherRun {
			updates[r.Object.Key()] = r
		}
	}
	return updates
}

// Compare marks results of the head as New or Unchanged, by fingerprint and
// outcome, and appends the Absent ones: failures and undecided results of the
// base that the head no longer has, except those of objects that the API server can't
// decode now, so that no policy is asked about them. A failure at more fields than in the base is New,
// and one at fewer fields is Unchanged, also if the first field is another.
// Of units that can't be compared only Unchanged results get a mark; the others count, as
// do those that say that the run ended early.
func (c Comparison) Compare(head []Result) []Result {
	known, failing, open := make(map[string]int, len(c.Base)), make(map[string][]string), make(map[string]bool)
	for i := range c.Base {
		id := c.Base[i].comparable(c.Base[i].Object.Unit)
		known[id]++
		open[id] = open[id] || c.Base[i].Suppression == nil
		if len(c.Base[i].Fields) > 0 && c.Base[i].Outcome == Fail {
			failing[id] = append(failing[id], c.Base[i].Fields...)
		}
	}
	var unknown []*Result
	refused := make(map[render.Key]bool) // objects that the API server can't decode
	for i := range head {
		r := &head[i]
		if r.CutShort() {
			continue
		}
		if r.undecoded() && r.Outcome == Fail {
			key := r.Object
			key.Unit = c.BaseUnit(r.Object)
			refused[key] = true
		}
		id := r.comparable(c.BaseUnit(r.Object))
		if known[id] == 0 {
			unknown = append(unknown, r)
			continue
		}
		known[id]--
		r.Baseline, r.Accepted = Unchanged, !open[id]
		if r.Outcome == Fail && len(r.Fields) > 1 && c.update(r.Object) != nil && c.more(r, failing[id]) {
			r.Baseline = New
		}
	}
	var gone []*Result
	for i := range c.Base {
		r := &c.Base[i]
		if id := r.comparable(r.Object.Unit); known[id] > 0 && r.Outcome != Pass && r.Outcome != Skip && !r.CutShort() {
			known[id]--
			gone = append(gone, r)
		}
	}
	for _, r := range c.compareFields(unknown, gone) {
		if !c.Stopped[r.Object.Unit] && !c.incomparable(r) && (r.undecoded() || !refused[r.Object]) {
			absent := *r
			absent.Baseline, absent.Suppression = Absent, nil
			head = append(head, absent)
		}
	}
	return head
}

// MarkRefused marks the unchanged denials of requests that the change makes as AlreadyFailing: the
// API server refuses them, so the change of the object does not take effect. A denial of the pods
// that a controller makes is left unchanged if the change makes the same pods. So it is for all that controllers make.
// A denial of a first install, which is no request of the change, is left unchanged, too.
func (c Comparison) MarkRefused(head []Result) {
	for i := range head {
		r := &head[i]
		update := c.update(r.Object)
		switch {
		case r.Baseline != Unchanged || r.Outcome != Fail || r.Action != Deny || r.Engine == EngineRego || r.Only == notOnUpgrade:
		case r.Operation != Delete && (update == nil || update.Unchanged()):
		case r.Pods && update != nil && r.sameMade(update.inBase(), update.Object):
		default:
			r.Baseline = AlreadyFailing
		}
	}
}

// sameMade reports whether an update of an object makes controllers create nothing of the kind that the result
// is about. The update of a Pod is left to the engine.
func (r *Result) sameMade(was, is *render.Object) bool {
	at, _ := PodTemplate(is.GroupVersionKind().GroupKind())
	fields, grows := []string{at}, false
	switch r.Made {
	case jobKind.Kind:
		fields = []string{"/spec/jobTemplate"}
	case replicaSetKind.Kind:
		fields = append(fields, "/spec/replicas", "/spec/minReadySeconds", "/metadata/annotations")
	case ClaimKind.Kind:
		grows = amount(is, "/spec/replicas") > amount(was, "/spec/replicas")
		if at += "/spec/volumes"; !slices.ContainsFunc(r.Fields, func(f string) bool { return strings.HasPrefix(f, at+"/") }) {
			at = "/spec/volumeClaimTemplates"
		}
		fields = []string{at}
	}
	fields = append(fields, r.Fields...) // such as the replicas, which exceed a quota
	return at != "" && !grows && !starts(was, is) && !slices.ContainsFunc(fields, func(at string) bool {
		before, _ := render.Lookup(was.Object, at)
		after, _ := render.Lookup(is.Object, at)
		return !reflect.DeepEqual(before, after)
	})
}

// starts reports whether an update has controllers create pods where they created none: it ends a suspension, or there
// were no replicas.
func starts(was, is *render.Object) bool { return !makes(was) && makes(is) }

// makes reports whether controllers create pods of an object now.
func makes(o *render.Object) bool {
	n, _ := podsOf(o.GroupVersionKind().GroupKind(), o.Object)
	return n > 0
}

// amount returns a number of an object, which is 1 where it is not written.
func amount(o *render.Object, at string) float64 {
	v, ok := render.Lookup(o.Object, at)
	n, err := strconv.ParseFloat(fmt.Sprint(v), 64)
	if !ok || err != nil {
		return 1
	}
	return n
}

// undecoded reports whether the result says that the API server can't decode the object.
func (r *Result) undecoded() bool { return r.Engine == EngineSchema && r.Rule == "decode" }

// compareFields compares results of head and base that have no pair with the same first
// field. It marks those of the head, and returns those of the base that fail at none of
// their fields in the head.
func (c Comparison) compareFields(head, base []*Result) []*Result {
	were := make(map[string][]*Result)
	for _, r := range base {
		if r.Outcome == Fail && len(r.Fields) > 0 {
			id := r.failure(r.Object.Unit)
			were[id] = append(were[id], r)
		}
	}
	remain := make(map[*Result]bool) // results of the base whose failure the head has, too
	for _, r := range head {
		if !c.incomparable(r) {
			r.Baseline = New
		}
		if r.Outcome != Fail || len(r.Fields) == 0 {
			continue
		}
		for _, was := range were[r.failure(c.BaseUnit(r.Object))] {
			if !remain[was] && !c.more(r, was.Fields) {
				r.Baseline, remain[was], r.Accepted = Unchanged, true, was.Suppression != nil
				break
			}
		}
	}
	for _, r := range head {
		if r.Baseline != New || len(r.Fields) < 2 {
			continue
		}
		for _, was := range were[r.failure(c.BaseUnit(r.Object))] {
			remain[was] = remain[was] || slices.ContainsFunc(r.Fields, c.among(r, was.Fields))
		}
	}
	return slices.DeleteFunc(base, func(r *Result) bool { return remain[r] })
}

// Differing returns the failures and undecided results among compared ones that are not
// the same on both sides. What both sides leave undecided is the same even if they would
// enforce it differently.
func Differing(compared []Result) (differing []Result) {
	undecided := func(r *Result) string {
		return strings.Join([]string{r.UnitlessPrint, r.Object.Unit, string(r.Outcome), r.Message}, "\x00")
	}
	absent, same := make(map[string][]int), make(map[int]bool)
	for i := range compared {
		if r := &compared[i]; r.Baseline == Absent && r.Undecided() {
			absent[undecided(r)] = append(absent[undecided(r)], i)
		}
	}
	for i := range compared {
		if r := &compared[i]; r.Baseline == New && r.Undecided() {
			if was := absent[undecided(r)]; len(was) > 0 {
				same[i], same[was[0]], absent[undecided(r)] = true, true, was[1:]
			}
		}
	}
	for i, r := range compared {
		if !same[i] && r.Baseline != Unchanged && r.Outcome != Pass && r.Outcome != Skip {
			differing = append(differing, r)
		}
	}
	return differing
}

// more reports whether a result's fields include one that is not among those of the
// base's object.
func (c Comparison) more(r *Result, was []string) bool {
	same := c.among(r, was)
	return slices.ContainsFunc(r.Fields, func(f string) bool { return !same(f) })
}

// among returns a function that reports whether a field of a result is one of those of
// the base's object. Elements of lists are compared by name, as in fingerprints.
func (c Comparison) among(r *Result, was []string) func(field string) bool {
	var base, head *render.Object
	if update := c.update(r.Object); update != nil {
		base, head = update.inBase(), update.Object
	}
	names := make(map[string]bool, len(was))
	for _, f := range was {
		names[stablePointer(base, f)] = true
	}
	return func(field string) bool { return names[stablePointer(head, field)] }
}

// BaseUnit returns the unit that an object had in the base.
func (c Comparison) BaseUnit(o render.Key) string {
	if update := c.update(o); update != nil {
		return update.inBase().Key().Unit
	}
	return o.Unit
}

// update returns the request that changes an object, or nil. A result names the
// namespace even if its object leaves that to the unit.
func (c Comparison) update(o render.Key) *Request {
	if update := c.Updates[o]; update != nil {
		return update
	}
	o.Namespace = ""
	return c.Updates[o]
}

func (c Comparison) incomparable(r *Result) bool {
	return r.Object.Unit != "" && r.Object.Kind != "" && c.Incomparable != nil && c.Incomparable(r.Object.Unit)
}

// failure returns a key that is equal for failures of the same rule and object of a unit
// in the base, whichever fields fail. A rule of Rego can have several failures, which
// differ by their message.
func (r *Result) failure(unit string) string {
	key := []string{r.Engine, r.Policy, r.Rule, group(r.Object.APIVersion), r.Object.Kind, r.Object.Namespace, lastingName(r.Object), unit, string(r.Action)}
	if r.Engine == EngineGatekeeper || r.Engine == EngineRego {
		key = append(key, r.Message)
	}
	return strings.Join(key, "\x00")
}

// comparable returns a key that is equal for results which say the same about
// the same object of a unit in the base.
func (r *Result) comparable(unit string) string {
	return strings.Join([]string{r.UnitlessPrint, unit, string(r.Outcome), string(r.Action)}, "\x00")
}
