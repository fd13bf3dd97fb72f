package argocd

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	kjson "sigs.k8s.io/json"

	"github.com/preadmit/preadmit/render"
)

// An application holds the fields of an Application that Argo CD reads. When an
// ApplicationSet makes an Application, all other fields are dropped, as by Argo
// CD's own types: names and omitempty are the same as there.
type application struct {
	Metadata  applicationMeta `json:"metadata"`
	Spec      applicationSpec `json:"spec"`
	Operation map[string]any  `json:"operation,omitempty"`
}

type applicationMeta struct {
	Name        string            `json:"name,omitempty"`
	Namespace   string            `json:"namespace,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Finalizers  []string          `json:"finalizers,omitempty" patchStrategy:"merge"`
}

type applicationSpec struct {
	Source               *source            `json:"source,omitempty"`
	Sources              []source           `json:"sources,omitempty"`
	SourceHydrator       *hydrator          `json:"sourceHydrator,omitempty"`
	Destination          destination        `json:"destination"`
	Project              string             `json:"project"`
	SyncPolicy           *syncPolicy        `json:"syncPolicy,omitempty"`
	IgnoreDifferences    []ignoreDifference `json:"ignoreDifferences,omitempty"`
	Info                 []info             `json:"info,omitempty"`
	RevisionHistoryLimit *int64             `json:"revisionHistoryLimit,omitempty"`
}

type source struct {
	RepoURL        string       `json:"repoURL"`
	Path           string       `json:"path,omitempty"`
	TargetRevision string       `json:"targetRevision,omitempty"`
	Helm           *helmOptions `json:"helm,omitempty"`
	Kustomize      *kustomize   `json:"kustomize,omitempty"`
	Directory      *directory   `json:"directory,omitempty"`
	Plugin         *plugin      `json:"plugin,omitempty"`
	Chart          string       `json:"chart,omitempty"`
	Ref            string       `json:"ref,omitempty"`
	Name           string       `json:"name,omitempty"`
}

// A drySource is a source that Argo CD's hydrator renders.
type drySource struct {
	RepoURL        string       `json:"repoURL"`
	TargetRevision string       `json:"targetRevision"`
	Path           string       `json:"path"`
	Helm           *helmOptions `json:"helm,omitempty"`
	Kustomize      *kustomize   `json:"kustomize,omitempty"`
	Directory      *directory   `json:"directory,omitempty"`
	Plugin         *plugin      `json:"plugin,omitempty"`
}

type hydrator struct {
	DrySource  drySource      `json:"drySource"`
	SyncSource map[string]any `json:"syncSource"`
	HydrateTo  map[string]any `json:"hydrateTo,omitempty"`
}

type destination struct {
	Server    string `json:"server,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name,omitempty"`
}

type helmOptions struct {
	ValueFiles              []string        `json:"valueFiles,omitempty"`
	Parameters              []helmParameter `json:"parameters,omitempty"`
	ReleaseName             string          `json:"releaseName,omitempty"`
	Values                  string          `json:"values,omitempty"`
	FileParameters          []fileParameter `json:"fileParameters,omitempty"`
	Version                 string          `json:"version,omitempty"`
	PassCredentials         bool            `json:"passCredentials,omitempty"`
	IgnoreMissingValueFiles bool            `json:"ignoreMissingValueFiles,omitempty"`
	SkipCrds                bool            `json:"skipCrds,omitempty"`
	ValuesObject            json.RawMessage `json:"valuesObject,omitempty"`
	Namespace               string          `json:"namespace,omitempty"`
	KubeVersion             string          `json:"kubeVersion,omitempty"`
	APIVersions             []string        `json:"apiVersions,omitempty"`
	SkipTests               bool            `json:"skipTests,omitempty"`
	SkipSchemaValidation    bool            `json:"skipSchemaValidation,omitempty"`
}

type helmParameter struct {
	Name        string `json:"name,omitempty"`
	Value       string `json:"value,omitempty"`
	ForceString bool   `json:"forceString,omitempty"`
}

type fileParameter struct {
	Name string `json:"name,omitempty"`
	Path string `json:"path,omitempty"`
}

type kustomize struct {
	NamePrefix                string            `json:"namePrefix,omitempty"`
	NameSuffix                string            `json:"nameSuffix,omitempty"`
	Images                    []string          `json:"images,omitempty"`
	CommonLabels              map[string]string `json:"commonLabels,omitempty"`
	Version                   string            `json:"version,omitempty"`
	CommonAnnotations         map[string]string `json:"commonAnnotations,omitempty"`
	ForceCommonLabels         bool              `json:"forceCommonLabels,omitempty"`
	ForceCommonAnnotations    bool              `json:"forceCommonAnnotations,omitempty"`
	Namespace                 string            `json:"namespace,omitempty"`
	CommonAnnotationsEnvsubst bool              `json:"commonAnnotationsEnvsubst,omitempty"`
	Replicas                  []replicas        `json:"replicas,omitempty"`
	Patches                   []patch           `json:"patches,omitempty"`
	Components                []string          `json:"components,omitempty"`
	IgnoreMissingComponents   bool              `json:"ignoreMissingComponents,omitempty"`
	LabelWithoutSelector      bool              `json:"labelWithoutSelector,omitempty"`
	LabelIncludeTemplates     bool              `json:"labelIncludeTemplates,omitempty"`
	KubeVersion               string            `json:"kubeVersion,omitempty"`
	APIVersions               []string          `json:"apiVersions,omitempty"`
}

type replicas struct {
	Name  string             `json:"name"`
	Count intstr.IntOrString `json:"count"`
}

type patch struct {
	Path    string          `json:"path,omitempty"`
	Patch   string          `json:"patch,omitempty"`
	Target  *patchTarget    `json:"target,omitempty"`
	Options map[string]bool `json:"options,omitempty"`
}

type patchTarget struct {
	Group              string `json:"group,omitempty"`
	Version            string `json:"version,omitempty"`
	Kind               string `json:"kind,omitempty"`
	Name               string `json:"name,omitempty"`
	Namespace          string `json:"namespace,omitempty"`
	AnnotationSelector string `json:"annotationSelector,omitempty"`
	LabelSelector      string `json:"labelSelector,omitempty"`
}

type directory struct {
	Recurse bool           `json:"recurse,omitempty"`
	Jsonnet jsonnetOptions `json:"jsonnet,omitzero"`
	Exclude string         `json:"exclude,omitempty"`
	Include string         `json:"include,omitempty"`
}

type jsonnetOptions struct {
	ExtVars []jsonnetVar `json:"extVars,omitempty"`
	TLAs    []jsonnetVar `json:"tlas,omitempty"`
	Libs    []string     `json:"libs,omitempty"`
}

type jsonnetVar struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	Code  bool   `json:"code,omitempty"`
}

type plugin struct {
	Name       string              `json:"name,omitempty"`
	Env        []map[string]string `json:"env,omitempty"`
	Parameters []map[string]any    `json:"parameters,omitempty"`
}

type syncPolicy struct {
	Automated                *automated `json:"automated,omitempty"`
	SyncOptions              []string   `json:"syncOptions,omitempty"`
	Retry                    *retry     `json:"retry,omitempty"`
	ManagedNamespaceMetadata *struct {
		Labels      map[string]string `json:"labels,omitempty"`
		Annotations map[string]string `json:"annotations,omitempty"`
	} `json:"managedNamespaceMetadata,omitempty"`
}

type automated struct {
	Prune      *bool `json:"prune,omitempty"`
	SelfHeal   *bool `json:"selfHeal,omitempty"`
	AllowEmpty *bool `json:"allowEmpty,omitempty"`
	Enabled    *bool `json:"enabled,omitempty"`
}

type retry struct {
	Limit   int64 `json:"limit,omitempty"`
	Refresh bool  `json:"refresh,omitempty"`
	Backoff *struct {
		Duration    string `json:"duration,omitempty"`
		Factor      *int64 `json:"factor,omitempty"`
		MaxDuration string `json:"maxDuration,omitempty"`
	} `json:"backoff,omitempty"`
}

type ignoreDifference struct {
	Group                 string   `json:"group,omitempty"`
	Kind                  string   `json:"kind"`
	Name                  string   `json:"name,omitempty"`
	Namespace             string   `json:"namespace,omitempty"`
	JSONPointers          []string `json:"jsonPointers,omitempty"`
	JQPathExpressions     []string `json:"jqPathExpressions,omitempty"`
	ManagedFieldsManagers []string `json:"managedFieldsManagers,omitempty"`
}

type info struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// decode reads a value tree as the API server reads JSON: names of fields are
// case-sensitive, unknown ones are dropped, a wrong type is an error.
func decode(tree, into any) error {
	data, err := json.Marshal(tree)
	if err != nil {
		return err
	}
	return kjson.UnmarshalCaseSensitivePreserveInts(data, into)
}

// encode returns the value tree of a value, with numbers as in [render.Object].
func encode(value any) (map[string]any, error) {
	data, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	tree := map[string]any{}
	err = kjson.UnmarshalCaseSensitivePreserveInts(data, &tree)
	return tree, err
}

// plain returns a value tree with numbers as float64, as encoding/json decodes
// them and templates print them.
func plain(tree any) any {
	return render.Replace(tree, func(v any) any {
		if i, ok := v.(int64); ok {
			return float64(i)
		}
		return v
	})
}

// clone copies a value tree.
func clone(tree map[string]any) map[string]any {
	if tree == nil {
		return nil
	}
	return (&unstructured.Unstructured{Object: tree}).DeepCopy().Object
}

// misshapen places an error of decode for a part of an object at the field of
// the wrong type.
func misshapen(o *render.Object, pointer string, err error) *render.Error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		pointer += render.FieldPointer(wrong.Field)
	}
	return &render.Error{Span: o.Span(pointer), Rule: "argocd-" + strings.ToLower(o.GetKind()), Err: shapeError(err)}
}

// shapeError explains in the user's terms what decode could not read.
func shapeError(err error) error {
	var wrong *json.UnmarshalTypeError
	if errors.As(err, &wrong) {
		return fmt.Errorf("%s is a %s, which Argo CD can't read there", wrong.Field, wrong.Value)
	}
	return fmt.Errorf("is not of the form that Argo CD reads: %w", err)
}
