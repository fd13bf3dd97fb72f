package policy

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/preadmit/preadmit/render"
)

// EngineUpgrade is the engine of results about an upgrade of the API server.
const EngineUpgrade = "Upgrade"

// DeprecatedVersion is the rule of [EngineSchema] for versions that the API server
// still serves.
const DeprecatedVersion = "deprecated"

// An Upgrade is the change from one version of Kubernetes to another.
type Upgrade struct {
	From, To      string
	Before, After Kinds
}

// Changes returns the differences between the objects that both API servers
// hold: fields that one of them drops, and defaults. The requests lead from the
// objects rendered for the earlier version to those for the later one; objects
// that are rendered differently are results too. Refusals are not included,
// since the chains of both versions report them.
func (u Upgrade) Changes(reqs []Request) []Result {
	var all []Result
	for i := range reqs {
		req := &reqs[i]
		var found []Result
		switch {
		case req.Operation == Delete && req.Recreated: // the CREATE shows what is different
		case req.Operation == Create && req.Instead == nil:
			found = append(found, u.result("rendered", "the object is rendered for %[2]s, and not for %[1]s", ""))
		case req.Operation == Delete:
			found = append(found, u.result("rendered", "the object is rendered for %[1]s, and not for %[2]s", ""))
		case !req.Unchanged():
			found = u.rendered(req)
		default:
			found = u.held(req.Object)
		}
		for k := range found {
			locate(&found[k], &Request{Operation: req.Operation, Object: req.Object, OldObject: req.OldObject}, &history{})
			found[k].Policy, found[k].Baseline = req.Subject().GroupVersionKind().GroupKind().String(), New
			all = append(all, found[k])
		}
	}
	return all
}

// result returns one difference. The first two arguments of the format are the
// versions, the third is the field.
func (u Upgrade) result(rule, format, pointer string, args ...any) Result {
	field := strings.ReplaceAll(strings.TrimPrefix(pointer, "/"), "/", ".")
	args = append([]any{"Kubernetes " + u.From, "Kubernetes " + u.To, field}, args...)
	r := Result{Engine: EngineUpgrade, Rule: rule, Outcome: Fail, Action: Audit, Message: fmt.Sprintf(format, args...)}
	if n := strings.Index(r.Message, "%!(EXTRA"); n >= 0 { // arguments that the format does not use
		r.Message = r.Message[:n]
	}
	if pointer != "" {
		r.Fields = []string{pointer}
	}
	return r
}

// maxUpgradeFields limits the fields that are named for an object.
const maxUpgradeFields = 20

// rendered returns the differences between the objects rendered for the
// versions.
func (u Upgrade) rendered(req *Request) []Result {
	fields := differences(req.inBase().Object, req.Object.Object)
	r := u.result("rendered", "the object is rendered differently for %[2]s than for %[1]s", "")
	for _, d := range fields[:min(len(fields), maxUpgradeFields)] {
		r.Fields = append(r.Fields, d.pointer)
	}
	return []Result{r}
}

// held returns the differences between the objects that both API servers store for
// one rendered object.
func (u Upgrade) held(o *render.Object) []Result {
	before, ok := u.admitted(u.Before, o)
	after, ok2 := u.admitted(u.After, o)
	if !ok || !ok2 {
		return nil
	}
	secret := o.GetKind() == "Secret"
	var found []Result
	for _, d := range differences(before, after) {
		if ignored(d.pointer) {
			continue
		}
		if len(found) == maxUpgradeFields {
			break
		}
		_, written := render.Lookup(o.Object, d.pointer)
		switch {
		case written && d.after == nil:
			r := u.result("pruned", "%[3]s is kept by %[1]s, and dropped by %[2]s", d.pointer)
			r.Action = Warn
			found = append(found, r)
		case written && d.before == nil:
			found = append(found, u.result("kept", "%[3]s is dropped by %[1]s, and kept by %[2]s", d.pointer))
		case written || secret:
			found = append(found, u.result("default", "%[3]s is another value for %[2]s than for %[1]s", d.pointer))
		case d.before == nil:
			found = append(found, u.result("default", "%[3]s has no default in %[1]s, and %[4]s in %[2]s", d.pointer, short(d.after)))
		case d.after == nil:
			found = append(found, u.result("default", "%[3]s has the default %[4]s in %[1]s, and none in %[2]s", d.pointer, short(d.before)))
		default:
			found = append(found, u.result("default", "%[3]s has the default %[4]s in %[1]s, and %[5]s in %[2]s", d.pointer, short(d.before), short(d.after)))
		}
	}
	return found
}

func (u Upgrade) admitted(k Kinds, o *render.Object) (map[string]any, bool) {
	o = decrypted(o)
	namespace := ""
	if k.Resource(o.GroupVersionKind()).Namespaced {
		namespace = o.EffectiveNamespace()
	}
	held, err := k.Admit(o, namespace)
	return held, err == nil
}

// ignored reports whether a difference in a field is meaningless: a time that
// is null or missing.
func ignored(pointer string) bool {
	return strings.HasSuffix(pointer, "/creationTimestamp") || strings.HasPrefix(pointer, "/status")
}

func short(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return Shorten(string(data), 100)
}

// A difference is a field with two values; nil means none.
type difference struct {
	pointer       string
	before, after any
}

// differences lists the fields in which two values differ, sorted by their pointers.
func differences(before, after any) []difference {
	var all []difference
	var walk func(pointer string, a, b any)
	walk = func(pointer string, a, b any) {
		switch x := a.(type) {
		case map[string]any:
			if y, ok := b.(map[string]any); ok {
				for _, key := range render.Keys(x, y) {
					walk(pointer+render.Pointer(key), x[key], y[key])
				}
				return
			}
		case []any:
			if y, ok := b.([]any); ok && len(x) == len(y) {
				for i := range x {
					walk(pointer+render.Pointer(i), x[i], y[i])
				}
				return
			}
		}
		if !reflect.DeepEqual(a, b) {
			all = append(all, difference{pointer, a, b})
		}
	}
	walk("", before, after)
	return all
}
