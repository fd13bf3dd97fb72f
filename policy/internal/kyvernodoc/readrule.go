package kyvernodoc

func (r reader) validate(x field) *Validate {
	if !x.there() {
		return nil
	}
	v := &Validate{
		Message: x.text("message"), Action: actionOf(x.text("failureAction")), Overrides: overrides(x.at("failureActionOverrides")),
		AllowExisting: x.flag("allowExistingViolations", true),
		Pattern:       x.at("pattern").value, HasPattern: x.at("pattern").there(),
		AnyPattern:  anyPattern(x),
		Deny:        r.deny(x.at("deny")),
		PodSecurity: podSecurity(x.at("podSecurity")),
		CEL:         celOf(x.at("cel")),
		Manifests:   manifestsOf(x.at("manifests")),
		Assert:      x.at("assert").there(),
	}
	for _, x := range x.at("foreach").list() {
		v.Foreach = append(v.Foreach, r.foreachValidate(x))
	}
	return v
}

func manifestsOf(x field) *Manifests {
	m := &Manifests{
		Attestors: attestorSets(x.at("attestors"), maxAttestors),
		Domain:    x.text("annotationDomain"), Repository: x.text("repository"),
		DryRun: x.at("dryRun").flag("enable", false),
	}
	if len(m.Attestors) == 0 {
		return nil
	}
	for _, i := range x.at("ignoreFields").list() {
		ignore := IgnoreFields{Fields: i.texts("fields")}
		for _, o := range i.at("objects").list() {
			ignore.Objects = append(ignore.Objects, ObjectReference{
				Group: o.text("group"), Version: o.text("version"), Kind: o.text("kind"), Name: o.text("name"), Namespace: o.text("namespace"),
			})
		}
		m.IgnoreFields = append(m.IgnoreFields, ignore)
	}
	return m
}

func attestorSets(x field, depth int) []*AttestorSet {
	var all []*AttestorSet
	for _, set := range x.list() {
		all = append(all, attestorSetOf(set, depth))
	}
	return all
}

func attestorSetOf(x field, depth int) *AttestorSet {
	n, _ := wholeNumber(x.at("count").value)
	set := &AttestorSet{Count: int(n)}
	for _, e := range x.at("entries").list() {
		set.Entries = append(set.Entries, attestorOf(e, depth))
	}
	return set
}

func attestorOf(x field, depth int) *Attestor {
	a := &Attestor{Key: x.at("keys").text("publicKeys"), Annotations: x.textMap("annotations"), Repository: x.text("repository")}
	for _, form := range []string{"attestor", "keys", "certificates", "keyless"} {
		if x.at(form).there() {
			a.Form = form
			break
		}
	}
	if a.Form == "attestor" && depth > 0 {
		a.Nested = attestorSetOf(x.at("attestor"), depth-1)
	}
	return a
}

func anyPattern(x field) []any {
	all, _ := x.at("anyPattern").value.([]any)
	return all
}

func (r reader) deny(x field) *Deny {
	if !x.there() {
		return nil
	}
	return &Deny{Conditions: r.conditions(x.at("conditions"), r.form)}
}

func (r reader) foreachValidate(x field) *ForeachValidate {
	f := &ForeachValidate{
		Pointer: x.pointer, List: x.text("list"),
		Context:       r.context(x.at("context")),
		Preconditions: r.conditions(x.at("preconditions"), r.form),
		Pattern:       x.at("pattern").value, HasPattern: x.at("pattern").there(),
		AnyPattern: anyPattern(x),
		Deny:       r.deny(x.at("deny")),
	}
	if scope, ok := x.at("elementScope").value.(bool); ok {
		f.ElementScope = &scope
	}
	for _, x := range x.at("foreach").list() {
		f.Foreach = append(f.Foreach, r.foreachValidate(x))
	}
	return f
}

func podSecurity(x field) *PodSecurity {
	if !x.there() {
		return nil
	}
	return &PodSecurity{Level: x.text("level"), Version: x.text("version"), Exclude: podSecurityExcludes(x.at("exclude"))}
}

func podSecurityExcludes(x field) []PodSecurityExclude {
	var all []PodSecurityExclude
	for _, x := range x.list() {
		all = append(all, PodSecurityExclude{
			ControlName: x.text("controlName"), Images: x.texts("images"), RestrictedField: x.text("restrictedField"), Values: x.texts("values"),
		})
	}
	return all
}

func celOf(x field) *CEL {
	if !x.there() {
		return nil
	}
	c := &CEL{
		Variables:        expressions(x.at("variables")),
		AuditAnnotations: keyValuesOf(x.at("auditAnnotations"), "valueExpression"),
		ParamKind:        x.at("paramKind").value, ParamRef: x.at("paramRef").value,
	}
	for _, x := range x.at("expressions").list() {
		c.Expressions = append(c.Expressions, Validation{
			Expression: x.text("expression"), Message: x.text("message"),
			MessageExpression: x.text("messageExpression"), Reason: x.text("reason"),
		})
	}
	return c
}

func (r reader) mutate(x field) *Mutate {
	if len(x.keys()) == 0 {
		return nil
	}
	m := &Mutate{
		StrategicMerge: x.at("patchStrategicMerge").value, HasStrategicMerge: x.at("patchStrategicMerge").there(),
		JSON6902: x.text("patchesJson6902"),
	}
	for _, x := range x.at("foreach").list() {
		m.Foreach = append(m.Foreach, r.foreachMutate(x))
	}
	for _, x := range x.at("targets").list() {
		m.Targets = append(m.Targets, &MutateTarget{
			APIVersion: x.text("apiVersion"), Kind: x.text("kind"), Namespace: x.text("namespace"), Name: x.text("name"),
			Selector: selector(x.at("selector")),
			Context:  r.context(x.at("context")), Preconditions: r.conditions(x.at("preconditions"), r.form),
		})
	}
	return m
}

func (r reader) foreachMutate(x field) *ForeachMutate {
	f := &ForeachMutate{
		Pointer: x.pointer, List: x.text("list"), Order: x.text("order"),
		Context:        r.context(x.at("context")),
		Preconditions:  r.conditions(x.at("preconditions"), r.form),
		StrategicMerge: x.at("patchStrategicMerge").value, HasStrategicMerge: x.at("patchStrategicMerge").there(),
		JSON6902: x.text("patchesJson6902"),
	}
	for _, x := range x.at("foreach").list() {
		f.Foreach = append(f.Foreach, r.foreachMutate(x))
	}
	return f
}

func (r reader) generate(x field) *Generate {
	if len(x.keys()) == 0 {
		return nil
	}
	g := &Generate{Spec: x.keys()}
	for _, x := range x.at("foreach").list() {
		g.Foreach = append(g.Foreach, &ForeachGenerate{
			List: x.text("list"), Context: r.context(x.at("context")),
			Preconditions: r.conditions(x.at("preconditions"), r.form), Spec: x.keys(),
		})
	}
	return g
}

func verifyImages(x field) *VerifyImages {
	v := &VerifyImages{
		Pointer: x.pointer, ImageReferences: x.texts("imageReferences"), SkipImageReferences: x.texts("skipImageReferences"),
		Attestors: len(x.at("attestors").list()), Attestations: len(x.at("attestations").list()),
		Required: x.flag("required", true), MutateDigest: x.flag("mutateDigest", true), VerifyDigest: x.flag("verifyDigest", true),
		Action: actionOf(x.text("failureAction")),
	}
	if image := x.text("image"); image != "" {
		v.ImageReferences = append([]string{image}, v.ImageReferences...)
	}
	for _, key := range []string{"key", "roots", "subject", "issuer"} { // attestors as they were once written
		if x.text(key) != "" {
			v.Attestors++
			break
		}
	}
	return v
}
