package crd

import (
	"strings"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/schema/cel/model"
	apischema "k8s.io/apimachinery/pkg/runtime/schema"
	apiservercel "k8s.io/apiserver/pkg/cel"

	"github.com/preadmit/preadmit/policy"
	"github.com/preadmit/preadmit/policy/internal/cel"
	"github.com/preadmit/preadmit/render"
)

// Complete returns what may be written at the end of before, the beginning of the rule or messageExpression at a
// pointer of a definition. It returns nothing if there is no such rule.
func Complete(kubeVersion string, o *render.Object, pointer, before string) []policy.Completion {
	version, err := cel.ParseVersion(kubeVersion)
	if err != nil {
		return nil
	}
	internal, err := decode(o.Object)
	if err != nil {
		return nil
	}
	for i, name := range versionNames(o.Object) {
		rest, ok := strings.CutPrefix(pointer, schemaPointer(o.Object, i))
		if !ok {
			continue
		}
		custom, err := apiextensions.GetSchemaForVersion(internal, name)
		if err != nil || custom == nil || custom.OpenAPIV3Schema == nil {
			return nil
		}
		s, err := schema.NewStructural(custom.OpenAPIV3Schema)
		if err != nil {
			return nil
		}
		return completeIn(version, s, render.Path(rest), before)
	}
	return nil
}

// completeIn follows a path from the root of a schema to a rule.
func completeIn(version cel.Version, s *schema.Structural, path []string, before string) []policy.Completion {
	root := true
	for ; len(path) > 3; root = false {
		switch path[0] {
		case "items":
			s, path = s.Items, path[1:]
		case "additionalProperties":
			s, path = valuesOf(s), path[1:]
		case "properties":
			inner, ok := s.Properties[path[1]]
			if s, path = &inner, path[2:]; !ok {
				return nil
			}
		default:
			return nil // a branch of allOf, whose type is that of the schema
		}
		if s == nil {
			return nil
		}
	}
	if len(path) < 3 || path[0] != validationsKey || path[2] != "rule" && path[2] != "messageExpression" {
		return nil
	}
	self := model.SchemaDeclType(s, root || s.XEmbeddedResource)
	if self == nil {
		return nil
	}
	self = self.MaybeAssignTypeName("selfType")
	return version.Complete([]apischema.GroupVersionKind{{}}, nil, nil, before, func(apischema.GroupVersionKind) (cel.Scope, error) {
		env, err := (&compiler{env: version.Env}).environments(self)(false)
		return cel.Scope{Env: env, Types: []*apiservercel.DeclTypeProvider{apiservercel.NewDeclTypeProvider(self)}}, err
	})
}
