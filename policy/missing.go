package policy

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Missing is what an undecided result needs: an object of the cluster that is
// neither in the tree nor in --with, a user, or a source that cannot be read.
type Missing struct {
	// Kind is the object's kind or resource, such as "Namespace" or
	// "configmaps", or one of the constants below.
	Kind string `json:"kind"`
	// Name is namespace/name, a name, or empty if any object will do.
	Name string `json:"name,omitempty"`
}

// Kinds of Missing other than kinds of objects.
const (
	MissingUser   = "user"   // the user who makes the request
	MissingAnswer = "answer" // a response of the API server; Name is the path
	MissingSource = "source" // a chart, repository or base; Name says which
	MissingUnit   = "unit"   // the objects of a unit that could not be rendered; Name is its ID
)

// Sentences in which engines ask for what only the live request has. No flag gives its options.
const (
	NeedsUser    = "needs to know who makes the request: give the user with --as"
	NeedsOptions = "needs the options of the request, such as fieldManager, which only its client knows"
)

// NeedsParameter asks for the parameters of a policy: the object with a name, or without one all of
// a kind.
func NeedsParameter(kind, namespace, name string) string {
	if name == "" {
		return "needs the list of " + ResourceOf(schema.GroupVersionKind{Kind: kind}).Resource + ": give them with --with"
	}
	return "needs " + kind + " " + path.Join(namespace, name) + ": give it with --with"
}

// questionForms match the sentences in which engines ask for something, such as
// "needs ConfigMap a/b: give it with --with". The first group is its name.
var questionForms = []struct {
	kind string // empty where the thing begins with its kind
	has  string // text that every match contains, which is found sooner
	form *regexp.Regexp
}{
	{"Namespace", ": give the Namespace with --with", regexp.MustCompile(`\bnamespace ([^\s,:]+).*: give the Namespace with --with$`)},
	{"CustomResourceDefinition", ": give its CustomResourceDefinition with --with", regexp.MustCompile(`\b(?:whether the cluster serves|the schema of|the (?:resource|versions) of kind|whether) ([^:]+?)(?: is namespaced)?: give its CustomResourceDefinition with --with$`)},
	{MissingUser, ": give the user with --as", regexp.MustCompile(`\bwho makes the request(): give the user with --as$`)},
	{MissingAnswer, "needs the answer to GET ", regexp.MustCompile(`\bneeds the answer to GET (.+): give it with --with$`)},
	{"", "needs a parameter of kind ", regexp.MustCompile(`\bneeds a parameter of kind (.+?): give it(?:, and a binding,)? with --with$`)},
	{"", "the ", regexp.MustCompile(`\bneeds (?:to know )?the (?:list of )?(\S+?)(?:: give them| of GlobalContextEntry .*: give it) with --with$`)},
	{"", ": give it with --with", regexp.MustCompile(`\bneeds (?:to know )?([^\s,:]+ [^\s,:]+)(?:, which it clones)?: give it with --with$`)},
}

// missingIn returns the objects or settings that a message asks for. It returns nil
// if the message also asks for something that no flag provides.
func missingIn(message string) []Missing {
	var all []Missing
	for question := range strings.SplitSeq(message, "; ") {
		m, ok := missingOf(question)
		if !ok {
			return nil
		}
		if !slices.Contains(all, m) {
			all = append(all, m)
		}
	}
	return all
}

func missingOf(question string) (Missing, bool) {
	for _, f := range questionForms {
		if !strings.Contains(question, f.has) {
			continue
		}
		found := f.form.FindStringSubmatch(question)
		if found == nil {
			continue
		}
		if f.kind != "" {
			return Missing{f.kind, found[1]}, true
		}
		kind, name, _ := strings.Cut(found[1], " ")
		return Missing{kind, name}, true
	}
	return Missing{}, false
}
