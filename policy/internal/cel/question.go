package cel

import (
	"cmp"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apiserver/pkg/authorization/authorizer"
)

// Questions collects facts that the running expression needs and that are unknown. A
// nil *Questions keeps none. It is not for concurrent use.
type Questions struct{ list []string }

// maxQuestions bounds the questions of one expression.
const maxQuestions = 32

// Reset forgets the questions, before the next expression.
func (q *Questions) Reset() { q.list = q.list[:0] }

// Any reports whether there is a question.
func (q *Questions) Any() bool { return len(q.list) > 0 }

// Add adds questions.
func (q *Questions) Add(questions ...string) {
	if q != nil && len(q.list) < maxQuestions {
		q.list = append(q.list, questions...)
	}
}

// Ask adds a question, and returns the error that the expression gets instead of an
// answer.
func (q *Questions) Ask(question string) ref.Val {
	q.Add(question)
	return types.NewErr("%s", question)
}

// All returns the questions. They are valid until the next Reset.
func (q *Questions) All() []string { return q.list }

// Text returns the questions in one line, without repetitions.
func (q *Questions) Text() string { return QuestionsText(q.list) }

// QuestionsText returns questions in one line, in order, without repetitions.
func QuestionsText(questions []string) string {
	var unique []string
	for _, question := range questions {
		if !slices.Contains(unique, question) {
			unique = append(unique, question)
		}
	}
	return strings.Join(unique, "; ")
}

// AuthorizerQuestion returns the question for a check of an authorizer that can't be
// decided, such as "needs to know whether jane may create pods in namespace a".
func AuthorizerQuestion(a authorizer.Attributes) string {
	who := "the user"
	if u := a.GetUser(); u != nil && u.GetName() != "" {
		who = u.GetName()
	}
	if !a.IsResourceRequest() {
		return fmt.Sprintf("needs to know whether %s may %s %s", who, a.GetVerb(), a.GetPath())
	}
	resource := a.GetResource()
	if a.GetAPIGroup() != "" {
		resource += "." + a.GetAPIGroup()
	}
	if a.GetSubresource() != "" {
		resource += "/" + a.GetSubresource()
	}
	if a.GetName() != "" {
		resource += fmt.Sprintf(" %q", a.GetName())
	}
	where := ""
	if a.GetNamespace() != "" {
		where = " in namespace " + a.GetNamespace()
	}
	return strings.TrimSpace(fmt.Sprintf("needs to know whether %s may %s %s%s", who, a.GetVerb(), cmp.Or(resource, "resources"), where))
}

// Quietly calls f, and drops the questions that it asks.
func (q *Questions) Quietly(f func()) {
	before := q.list
	f()
	q.list = before
}

func (q *Questions) len() int {
	if q == nil {
		return 0
	}
	return len(q.list)
}

// since returns a copy of the questions after the first n.
func (q *Questions) since(n int) []string {
	if q.len() == n {
		return nil
	}
	return slices.Clone(q.list[n:])
}

// A Partial is a map with some known keys. Reading any other key gives the error that Ask
// returns, so that an expression which needs it is undecided. It is safe for concurrent
// use if Ask is.
type Partial struct {
	Known map[string]ref.Val
	Ask   func() ref.Val
}

// PartialNamespace returns a Namespace with its name alone; ask answers for the rest.
func PartialNamespace(name string, ask func() ref.Val) *Partial {
	text := types.String(name)
	labels := &Partial{map[string]ref.Val{corev1.LabelMetadataName: text}, ask}
	metadata := &Partial{map[string]ref.Val{"name": text, "labels": labels}, ask}
	return &Partial{map[string]ref.Val{"metadata": metadata}, ask}
}

// PartialOptions returns a request's options with their known fields; ask answers for those
// that depend on the client, such as fieldManager.
func PartialOptions(known any, ask func() ref.Val) *Partial {
	p := &Partial{map[string]ref.Val{}, ask}
	for name, v := range known.(map[string]any) {
		p.Known[name] = types.DefaultTypeAdapter.NativeToValue(v)
	}
	return p
}

// Find implements traits.Mapper.
func (p *Partial) Find(key ref.Val) (ref.Val, bool) {
	if k, ok := key.(types.String); ok && p.Known[string(k)] != nil {
		return p.Known[string(k)], true
	}
	return p.Ask(), true
}

// Get implements traits.Indexer.
func (p *Partial) Get(key ref.Val) ref.Val {
	v, _ := p.Find(key)
	return v
}

// Contains implements traits.Container.
func (p *Partial) Contains(key ref.Val) ref.Val {
	if v := p.Get(key); types.IsError(v) {
		return v
	}
	return types.True
}

// Size implements traits.Sizer.
func (p *Partial) Size() ref.Val { return p.Ask() }

// Iterator implements traits.Iterable: its one element is the error.
func (p *Partial) Iterator() traits.Iterator {
	return types.NewRefValList(types.DefaultTypeAdapter, []ref.Val{p.Ask()}).Iterator()
}

// Fold implements traits.Foldable, likewise.
func (p *Partial) Fold(f traits.Folder) { f.FoldEntry(p.Ask(), p.Ask()) }

// ConvertToNative implements ref.Val.
func (p *Partial) ConvertToNative(reflect.Type) (any, error) { return nil, p.Ask().(*types.Err) }

// ConvertToType implements ref.Val.
func (p *Partial) ConvertToType(t ref.Type) ref.Val {
	switch t {
	case types.MapType:
		return p
	case types.TypeType:
		return types.MapType
	}
	return types.NewErr("type conversion error from '%s' to '%s'", types.MapType, t)
}

// Equal implements ref.Val. A map is never null.
func (p *Partial) Equal(other ref.Val) ref.Val {
	if other.Type() == types.NullType {
		return types.False
	}
	return p.Ask()
}

// Type implements ref.Val.
func (p *Partial) Type() ref.Type { return types.MapType }

// Value implements ref.Val.
func (p *Partial) Value() any { return p.Known }
