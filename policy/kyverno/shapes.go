package kyverno

// The shapes of Kyverno's kinds are those of its CustomResourceDefinitions, of
// every version that may still be found: fields that newer ones left out are
// there, since their policies are still applied to clusters that have them.

var (
	text    = &shape{kind: aString}
	flag    = &shape{kind: aBoolean}
	number  = &shape{kind: aNumber}
	free    = &shape{}
	texts   = listOf(text)
	textMap = mapOf(text)

	action = enum("Audit", "Enforce", "audit", "enforce")
)

var clusterPolicyShape = policyShape(matchShape)

var policyV2Beta1Shape = policyShape(matchAnyAllShape)

func policyShape(match *shape) *shape {
	return object(map[string]*shape{
		"apiVersion": text, "kind": text, "metadata": mapOf(free), "status": free,
		"spec": specShape(match),
	}, "spec")
}

func specShape(match *shape) *shape {
	return object(map[string]*shape{
		"applyRules":                       enum("All", "One"),
		"failurePolicy":                    enum("Ignore", "Fail"),
		"validationFailureAction":          action,
		"validationFailureActionOverrides": listOf(overrideShape),
		"emitWarning":                      flag,
		"admission":                        flag,
		"background":                       flag,
		"schemaValidation":                 flag,
		"webhookTimeoutSeconds":            number,
		"mutateExistingOnPolicyUpdate":     flag,
		"generateExistingOnPolicyUpdate":   flag,
		"generateExisting":                 flag,
		"useServerSideApply":               flag,
		"webhookConfiguration": object(map[string]*shape{
			"failurePolicy": enum("Ignore", "Fail"), "timeoutSeconds": number, "matchConditions": listOf(namedShape),
		}),
		"rules": listOf(ruleShape(match)),
	})
}

func ruleShape(match *shape) *shape {
	return object(map[string]*shape{
		"name":                   {kind: aString, max: 63},
		"match":                  match,
		"exclude":                match,
		"context":                contextShape,
		"preconditions":          free, // conditions.Parse says what may stand in it
		"celPreconditions":       listOf(namedShape),
		"imageExtractors":        mapOf(listOf(extractorShape)),
		"skipBackgroundRequests": flag,
		"reportProperties":       textMap,
		"validate":               validateShape,
		"mutate":                 mutateShape,
		"generate":               generateShape,
		"verifyImages":           listOf(verifyImagesShape),
	}, "name", "match")
}

var namedShape = object(map[string]*shape{"name": text, "expression": text}, "name", "expression")

var overrideShape = object(map[string]*shape{"action": action, "namespaces": texts, "namespaceSelector": selectorShape})

var extractorShape = object(map[string]*shape{
	"path": text, "value": text, "name": text, "key": text, "jmesPath": text,
}, "path")

// match, exclude

var selectorShape = object(map[string]*shape{
	"matchLabels": textMap,
	"matchExpressions": listOf(object(map[string]*shape{
		"key": text, "operator": text, "values": texts,
	}, "key", "operator")),
})

var resourcesShape = object(map[string]*shape{
	"kinds": texts, "name": text, "names": texts, "namespaces": texts, "annotations": textMap,
	"selector": selectorShape, "namespaceSelector": selectorShape,
	"operations": listOf(enum("CREATE", "CONNECT", "UPDATE", "DELETE")),
})

var filterShape = object(map[string]*shape{
	"resources": resourcesShape, "roles": texts, "clusterRoles": texts,
	"subjects": listOf(object(map[string]*shape{"kind": text, "apiGroup": text, "name": text, "namespace": text}, "kind", "name")),
})

var matchAnyAllShape = object(map[string]*shape{"any": listOf(filterShape), "all": listOf(filterShape)})

var matchShape = matchAnyAllShape.with(filterShape.fields)

// context

var credentialsShape = object(map[string]*shape{"allowInsecureRegistry": flag, "providers": texts, "secrets": texts})

var keyValues = listOf(object(map[string]*shape{"key": text, "value": free}, "key"))

var contextShape = listOf(object(map[string]*shape{
	"name":      text,
	"configMap": object(map[string]*shape{"name": text, "namespace": text}),
	"apiCall": object(map[string]*shape{
		"urlPath": text, "method": enum("GET", "POST"), "data": keyValues, "jmesPath": text, "default": free,
		"service": object(map[string]*shape{"url": text, "caBundle": text, "headers": keyValues}, "url"),
	}),
	"imageRegistry":   object(map[string]*shape{"reference": text, "jmesPath": text, "imageRegistryCredentials": credentialsShape}),
	"variable":        object(map[string]*shape{"value": free, "jmesPath": text, "default": free}),
	"globalReference": object(map[string]*shape{"name": text, "jmesPath": text}),
}, "name"))

// validate

var denyShape = object(map[string]*shape{"conditions": free})

var foreachFields = map[string]*shape{"list": text, "context": contextShape, "preconditions": free}

var foreachValidateShape = object(foreachFields).with(map[string]*shape{
	"elementScope": flag, "pattern": free, "anyPattern": free, "deny": denyShape, "foreach": listOf(&shape{nested: "validate"}),
})

var podSecurityExcludeShape = object(map[string]*shape{
	"controlName": enum(controlNames...), "images": texts, "restrictedField": text, "values": texts,
}, "controlName")

// controlNames are the controls of the Pod Security Standards.
var controlNames = []string{
	"HostProcess", "Host Namespaces", "Privileged Containers", "Capabilities", "HostPath Volumes", "Host Ports", "AppArmor", "SELinux",
	"/proc Mount Type", "Seccomp", "Sysctls", "Volume Types", "Privilege Escalation", "Running as Non-root", "Running as Non-root user",
}

var celShape = object(map[string]*shape{
	"generate": flag,
	"expressions": listOf(object(map[string]*shape{
		"expression": text, "message": text, "messageExpression": text, "reason": text,
	}, "expression")),
	"variables":        listOf(namedShape),
	"auditAnnotations": listOf(object(map[string]*shape{"key": text, "valueExpression": text}, "key", "valueExpression")),
	"paramKind":        object(map[string]*shape{"apiVersion": text, "kind": text}),
	"paramRef": object(map[string]*shape{
		"name": text, "namespace": text, "parameterNotFoundAction": text, "selector": selectorShape,
	}),
})

var objectsShape = listOf(object(map[string]*shape{
	"group": text, "version": text, "kind": text, "name": text, "namespace": text,
}))

var manifestsShape = object(map[string]*shape{
	"attestors": listOf(attestorSetShape), "annotationDomain": text, "repository": text,
	"ignoreFields": listOf(object(map[string]*shape{"fields": texts, "objects": objectsShape})),
	"skipObjects":  objectsShape,
	"dryRun":       object(map[string]*shape{"enable": flag, "namespace": text}),
})

var validateShape = object(map[string]*shape{
	"message": text, "failureAction": action, "failureActionOverrides": listOf(overrideShape), "allowExistingViolations": flag,
	"pattern": free, "anyPattern": free, "deny": denyShape, "foreach": listOf(foreachValidateShape), "cel": celShape, "assert": free,
	"podSecurity": object(map[string]*shape{
		"level": enum("privileged", "baseline", "restricted"), "version": text, "exclude": listOf(podSecurityExcludeShape),
	}),
	"manifests": manifestsShape,
})

// mutate

var foreachMutateShape = object(foreachFields).with(map[string]*shape{
	"order": enum("Ascending", "Descending"), "patchStrategicMerge": free, "patchesJson6902": text, "foreach": listOf(&shape{nested: "mutate"}),
})

var resourceFields = map[string]*shape{"apiVersion": text, "kind": text, "namespace": text, "name": text, "uid": text}

var mutateShape = object(map[string]*shape{
	"mutateExistingOnPolicyUpdate": flag, "patchStrategicMerge": free, "patchesJson6902": text, "foreach": listOf(foreachMutateShape),
	"targets": listOf(object(resourceFields).with(map[string]*shape{
		"selector": selectorShape, "context": contextShape, "preconditions": free,
	})),
})

// generate

var generatedFields = object(resourceFields).with(map[string]*shape{
	"data": free, "clone": object(map[string]*shape{"namespace": text, "name": text}),
	"cloneList": object(map[string]*shape{"namespace": text, "kinds": texts, "selector": selectorShape}),
}).fields

var generateShape = object(generatedFields).with(map[string]*shape{
	"generateExisting": flag, "synchronize": flag, "orphanDownstreamOnPolicyDelete": flag,
	"foreach": listOf(object(generatedFields).with(foreachFields)),
})

// verifyImages

var rekorShape = object(map[string]*shape{"url": text, "pubkey": text, "ignoreTlog": flag})

var ctlogShape = object(map[string]*shape{"ignoreSCT": flag, "pubkey": text, "tsaCertChain": text})

var attestorSetShape = object(map[string]*shape{
	"count": number,
	"entries": listOf(object(map[string]*shape{
		"keys": object(map[string]*shape{
			"publicKeys": text, "signatureAlgorithm": text, "kms": text, "rekor": rekorShape, "ctlog": ctlogShape,
			"secret": object(map[string]*shape{"name": text, "namespace": text}),
		}),
		"certificates": object(map[string]*shape{"cert": text, "certChain": text, "rekor": rekorShape, "ctlog": ctlogShape}),
		"keyless": object(map[string]*shape{
			"rekor": rekorShape, "ctlog": ctlogShape, "issuer": text, "issuerRegExp": text, "subject": text, "subjectRegExp": text,
			"roots": text, "additionalExtensions": textMap,
		}),
		"attestor": free, "annotations": textMap, "repository": text, "signatureAlgorithm": text,
	})),
})

var verifyImagesShape = object(map[string]*shape{
	"type": enum("Cosign", "SigstoreBundle", "Notary"), "failureAction": action,
	"image": text, "imageReferences": texts, "skipImageReferences": texts,
	"key": text, "roots": text, "subject": text, "issuer": text, "additionalExtensions": textMap, "annotations": textMap,
	"repository": text, "cosignOCI11": flag, "mutateDigest": flag, "verifyDigest": flag, "required": flag, "useCache": flag,
	"imageRegistryCredentials": credentialsShape,
	"attestors":                listOf(attestorSetShape),
	"attestations": listOf(object(map[string]*shape{
		"name": text, "type": text, "predicateType": text, "attestors": listOf(attestorSetShape), "conditions": free,
	})),
	"validate": object(map[string]*shape{"message": text, "deny": denyShape}),
})

// exceptions

var exceptionShape = object(map[string]*shape{
	"apiVersion": text, "kind": text, "metadata": mapOf(free),
	"spec": object(map[string]*shape{
		"background": flag, "match": matchAnyAllShape, "conditions": free, "podSecurity": listOf(podSecurityExcludeShape),
		"exceptions": listOf(object(map[string]*shape{"policyName": text, "ruleNames": texts}, "policyName", "ruleNames")),
	}, "exceptions", "match"),
}, "spec")
