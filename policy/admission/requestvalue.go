package admission

import (
	"maps"
	"slices"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
)

// requestValue is the `request` variable for one matched version.
type requestValue struct {
	as    policy.Version
	value ref.Val
	sizes cel.Sizes
}

// request returns the `request` variable for a policy that sees the request as
// one of a version, and its sizes
// (k8s.io/apiserver/pkg/admission/plugin/cel.CreateAdmissionRequest).
func (r *review) request(as policy.Version) (ref.Val, cel.Sizes) {
	for i := range r.requests {
		if v := &r.requests[i]; v.as == as {
			return v.value, v.sizes
		}
	}
	var m measuring
	v := requestValue{as: as, value: m.request(r, as), sizes: m.Sizes}
	r.requests = append(r.requests, v)
	return v.value, v.sizes
}

// measuring makes values, and measures them.
type measuring struct{ cel.Sizes }

// fields collects the fields of a map, in the order of their names.
type fields struct {
	keys []string
	vals []ref.Val
}

func (f *fields) add(key string, v ref.Val) {
	f.keys, f.vals = append(f.keys, key), append(f.vals, v)
}

func (m *measuring) request(r *review, as policy.Version) ref.Val {
	const most = 15
	f := &fields{make([]string, 0, most), make([]ref.Val, 0, most)}
	f.add("dryRun", types.Bool(r.req.DryRun))
	f.add("kind", m.kind(as.Kind))
	m.given(f, "name", r.req.Name)
	m.given(f, "namespace", r.namespace)
	f.add("object", types.NullValue)
	f.add("oldObject", types.NullValue)
	f.add("operation", m.text(string(r.req.Operation)))
	f.add("options", m.options(r.req.Operation))
	f.add("requestKind", m.kind(r.req.Kind))
	f.add("requestResource", m.resource(r.req.Resource.GroupVersionResource))
	m.given(f, "requestSubResource", r.req.SubResource)
	f.add("resource", m.resource(as.Resource))
	m.given(f, "subResource", r.req.SubResource)
	f.add("uid", types.String(""))
	f.add("userInfo", m.user(r))
	return m.mapping(f.keys, f.vals...)
}

func (m *measuring) mapping(keys []string, vals ...ref.Val) ref.Val {
	m.Items = max(m.Items, uint64(len(keys)))
	for _, k := range keys {
		m.Length = max(m.Length, uint64(len(k)))
	}
	return cel.MapOf(keys, vals)
}

func (m *measuring) text(s string) ref.Val {
	m.Length = max(m.Length, uint64(len(s)))
	return types.String(s)
}

// given adds a field that is left out when it is empty.
func (m *measuring) given(f *fields, key, value string) {
	if value != "" {
		f.add(key, m.text(value))
	}
}

var (
	kindFields     = []string{"group", "kind", "version"}
	resourceFields = []string{"group", "resource", "version"}
	optionsFields  = []string{"apiVersion", "kind"}
)

func (m *measuring) kind(k schema.GroupVersionKind) ref.Val {
	return m.mapping(kindFields, m.text(k.Group), m.text(k.Kind), m.text(k.Version))
}

func (m *measuring) resource(r schema.GroupVersionResource) ref.Val {
	return m.mapping(resourceFields, m.text(r.Group), m.text(r.Resource), m.text(r.Version))
}

func (m *measuring) options(op policy.Operation) ref.Val {
	kind := ""
	switch op {
	case policy.Create:
		kind = "CreateOptions"
	case policy.Update:
		kind = "UpdateOptions"
	case policy.Delete:
		kind = "DeleteOptions"
	}
	return m.mapping(optionsFields, m.text("meta.k8s.io/v1"), m.text(kind))
}

// user is request.userInfo. Of a request that names no user nothing is known.
func (m *measuring) user(r *review) ref.Val {
	u := r.req.UserInfo
	if !r.whole && u.Username == "" && u.UID == "" && len(u.Groups) == 0 && len(u.Extra) == 0 {
		return &partial{ask: func(string) ref.Val { return r.ask("needs to know who makes the request: give the user with --as") }}
	}
	f := &fields{}
	if len(u.Extra) > 0 {
		extra := &fields{}
		for _, k := range slices.Sorted(maps.Keys(u.Extra)) {
			extra.add(k, m.texts(u.Extra[k]))
		}
		f.add("extra", m.mapping(extra.keys, extra.vals...))
	}
	if len(u.Groups) > 0 {
		f.add("groups", m.texts(u.Groups))
	}
	m.given(f, "uid", u.UID)
	m.given(f, "username", u.Username)
	return m.mapping(f.keys, f.vals...)
}

func (m *measuring) texts(list []string) ref.Val {
	m.Items = max(m.Items, uint64(len(list)))
	vals := make([]ref.Val, len(list))
	for i, s := range list {
		vals[i] = m.text(s)
	}
	return cel.ListOf(vals)
}
