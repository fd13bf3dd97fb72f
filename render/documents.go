package render

// A DocumentState says what becomes of a document of the tree that is a
// Kubernetes object.
type DocumentState string

// The states of a document. Each document has exactly one.
const (
	DocRendered    DocumentState = "rendered"     // a unit deploys it
	DocData        DocumentState = "data"         // a unit reads it as something else: a patch, data of a generator, a schema
	DocInChart     DocumentState = "in-chart"     // it lies in a chart that does not render it
	DocUnused      DocumentState = "unused"       // of a component that no unit uses
	DocLocalConfig DocumentState = "local-config" // kustomize reads it and leaves it out
	DocDeleted     DocumentState = "deleted"      // a patch deletes it
	DocExcluded    DocumentState = "excluded"     // it lies in an excluded or hidden directory
	DocFixture     DocumentState = "fixture"      // it belongs to a test suite
	DocTemplate    DocumentState = "template"     // it has placeholders that something is to fill in
	DocFailed      DocumentState = "failed"       // it belongs to a unit that could not be rendered
)
