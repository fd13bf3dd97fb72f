package document

// The shapes of Kyverno's kinds are those of its CustomResourceDefinitions of all
// versions in use. They include fields that newer versions removed, since clusters of
// older versions still have policies with them.

var (
	textShape    = &shape{kind: aString}
	flagShape    = &shape{kind: aBoolean}
	numberShape  = &shape{kind: aNumber}
	freeShape    = &shape{}
	textsShape   = listOf(textShape)
	textMapShape = mapOf(textShape)

	actionShape = enum("Audit", "Enforce", "audit", "enforce")
)

var clusterPolicyShape = policyShape(matchShape)

var policyV2Beta1Shape = policyShape(matchAnyAllShape)

func policyShape(match *shape) *shape {
	return object(map[string]*shape{
		"apiVersion": textShape, "kind": textShape, "metadata": mapOf(freeShape), "status": freeShape,
		"spec": specShape(match),
	}, "spec")
}

func specShape(match *shape) *shape {
	return object(map[string]*shape{
		"applyRules":                       enum("All", "One"),
		"failurePolicy":                    enum("Ignore", "Fail"),
		"validationFailureAction":          actionShape,
		"validationFailureActionOverrides": listOf(overrideShape),
		"emitWarning":                      flagShape,
		"admission":                        flagShape,
		"background":                       flagShape,
		"schemaValidation":                 flagShape,
		"webhookTimeoutSeconds":            numberShape,
		"mutateExistingOnPolicyUpdate":     flagShape,
		"generateExistingOnPolicyUpdate":   flagShape,
		"generateExisting":                 flagShape,
		"useServerSideApply":               flagShape,
		"webhookConfiguration": object(map[string]*shape{
			"failurePolicy": enum("Ignore", "Fail"), "timeoutSeconds": numberShape, "matchConditions": listOf(namedShape),
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
		"preconditions":          freeShape, // conditions.Parse checks it
		"celPreconditions":       listOf(namedShape),
		"imageExtractors":        mapOf(listOf(extractorShape)),
		"skipBackgroundRequests": flagShape,
		"reportProperties":       textMapShape,
		"validate":               validateShape,
		"mutate":                 mutateShape,
		"generate":               generateShape,
		"verifyImages":           listOf(verifyImagesShape),
	}, "name", "match")
}

var namedShape = object(map[string]*shape{"name": textShape, "expression": textShape}, "name", "expression")

var overrideShape = object(map[string]*shape{"action": actionShape, "namespaces": textsShape, "namespaceSelector": selectorShape})

var extractorShape = object(map[string]*shape{
	"path": textShape, "value": textShape, "name": textShape, "key": textShape, "jmesPath": textShape,
}, "path")

// match, exclude

var selectorShape = object(map[string]*shape{
	"matchLabels": textMapShape,
	"matchExpressions": listOf(object(map[string]*shape{
		"key": textShape, "operator": textShape, "values": textsShape,
	}, "key", "operator")),
})

var resourcesShape = object(map[string]*shape{
	"kinds": textsShape, "name": textShape, "names": textsShape, "namespaces": textsShape, "annotations": textMapShape,
	"selector": selectorShape, "namespaceSelector": selectorShape,
	"operations": listOf(enum("CREATE", "CONNECT", "UPDATE", "DELETE")),
})

var filterShape = object(map[string]*shape{
	"resources": resourcesShape, "roles": textsShape, "clusterRoles": textsShape,
	"subjects": listOf(object(map[string]*shape{"kind": textShape, "apiGroup": textShape, "name": textShape, "namespace": textShape}, "kind", "name")),
})

var matchAnyAllShape = object(map[string]*shape{"any": listOf(filterShape), "all": listOf(filterShape)})

var matchShape = matchAnyAllShape.with(filterShape.fields)

// context

var credentialsShape = object(map[string]*shape{"allowInsecureRegistry": flagShape, "providers": textsShape, "secrets": textsShape})

var keyValues = listOf(object(map[string]*shape{"key": textShape, "value": freeShape}, "key"))

var contextShape = listOf(object(map[string]*shape{
	"name":      textShape,
	"configMap": object(map[string]*shape{"name": textShape, "namespace": textShape}),
	"apiCall": object(map[string]*shape{
		"urlPath": textShape, "method": enum("GET", "POST"), "data": keyValues, "jmesPath": textShape, "default": freeShape,
		"service": object(map[string]*shape{"url": textShape, "caBundle": textShape, "headers": keyValues}, "url"),
	}),
	"imageRegistry":   object(map[string]*shape{"reference": textShape, "jmesPath": textShape, "imageRegistryCredentials": credentialsShape}),
	"variable":        object(map[string]*shape{"value": freeShape, "jmesPath": textShape, "default": freeShape}),
	"globalReference": object(map[string]*shape{"name": textShape, "jmesPath": textShape}),
}, "name"))

// validate

var denyShape = object(map[string]*shape{"conditions": freeShape})

// conditionShape is a condition where the CRDs describe it: in foreach. They let
// rules have conditions of any form, which the conditions package reads.
var conditionShape = object(map[string]*shape{
	"key": freeShape, "value": freeShape, "message": textShape,
	"operator": enum("Equals", "NotEquals", "In", "AnyIn", "AllIn", "NotIn", "AnyNotIn", "AllNotIn",
		"GreaterThanOrEquals", "GreaterThan", "LessThanOrEquals", "LessThan",
		"DurationGreaterThanOrEquals", "DurationGreaterThan", "DurationLessThanOrEquals", "DurationLessThan"),
})

var foreachFields = map[string]*shape{
	"list": textShape, "context": contextShape,
	"preconditions": object(map[string]*shape{"any": listOf(conditionShape), "all": listOf(conditionShape)}),
}

var foreachValidateShape = object(foreachFields).with(map[string]*shape{
	"elementScope": flagShape, "pattern": freeShape, "anyPattern": freeShape, "deny": denyShape, "foreach": listOf(&shape{nested: "validate"}),
})

var podSecurityExcludeShape = object(map[string]*shape{
	"controlName": enum(controlNames...), "images": textsShape, "restrictedField": textShape, "values": textsShape,
}, "controlName")

// podSecurityVersions are the versions in the CRDs of Kyverno 1.19. It has the
// checks of later versions as "latest".
var podSecurityVersions = []string{
	"v1.19", "v1.20", "v1.21", "v1.22", "v1.23", "v1.24", "v1.25", "v1.26", "v1.27", "v1.28", "v1.29", "v1.30", "v1.31", "v1.32", "latest",
}

// controlNames are the controls of the Pod Security Standards.
var controlNames = []string{
	"HostProcess", "Host Namespaces", "Privileged Containers", "Capabilities", "HostPath Volumes", "Host Ports", "AppArmor", "SELinux",
	"/proc Mount Type", "Seccomp", "Sysctls", "Volume Types", "Privilege Escalation", "Running as Non-root", "Running as Non-root user",
}

var celShape = object(map[string]*shape{
	"generate": flagShape,
	"expressions": listOf(object(map[string]*shape{
		"expression": textShape, "message": textShape, "messageExpression": textShape, "reason": textShape,
	}, "expression")),
	"variables":        listOf(namedShape),
	"auditAnnotations": listOf(object(map[string]*shape{"key": textShape, "valueExpression": textShape}, "key", "valueExpression")),
	"paramKind":        object(map[string]*shape{"apiVersion": textShape, "kind": textShape}),
	"paramRef": object(map[string]*shape{
		"name": textShape, "namespace": textShape, "parameterNotFoundAction": textShape, "selector": selectorShape,
	}),
})

var objectsShape = listOf(object(map[string]*shape{
	"group": textShape, "version": textShape, "kind": textShape, "name": textShape, "namespace": textShape,
}))

var manifestsShape = object(map[string]*shape{
	"attestors": listOf(attestorSetShape), "annotationDomain": textShape, "repository": textShape,
	"ignoreFields": listOf(object(map[string]*shape{"fields": textsShape, "objects": objectsShape})),
	"skipObjects":  objectsShape,
	"dryRun":       object(map[string]*shape{"enable": flagShape, "namespace": textShape}),
})

var validateShape = object(map[string]*shape{
	"message": textShape, "failureAction": enum("Audit", "Enforce"), "failureActionOverrides": listOf(overrideShape), "allowExistingViolations": flagShape,
	"pattern": freeShape, "anyPattern": freeShape, "deny": denyShape, "foreach": listOf(foreachValidateShape), "cel": celShape, "assert": freeShape,
	"podSecurity": object(map[string]*shape{
		"level": enum("privileged", "baseline", "restricted"), "version": enum(podSecurityVersions...), "exclude": listOf(podSecurityExcludeShape),
	}),
	"manifests": manifestsShape,
})

// mutate

var foreachMutateShape = object(foreachFields).with(map[string]*shape{
	"order": enum("Ascending", "Descending"), "patchStrategicMerge": freeShape, "patchesJson6902": textShape, "foreach": listOf(&shape{nested: "mutate"}),
})

var resourceFields = map[string]*shape{"apiVersion": textShape, "kind": textShape, "namespace": textShape, "name": textShape, "uid": textShape}

var mutateShape = object(map[string]*shape{
	"mutateExistingOnPolicyUpdate": flagShape, "patchStrategicMerge": freeShape, "patchesJson6902": textShape, "foreach": listOf(foreachMutateShape),
	"targets": listOf(object(resourceFields).with(map[string]*shape{
		"selector": selectorShape, "context": contextShape, "preconditions": freeShape,
	})),
})

// generate

var generatedFields = object(resourceFields).with(map[string]*shape{
	"data": freeShape, "clone": object(map[string]*shape{"namespace": textShape, "name": textShape}),
	"cloneList": object(map[string]*shape{"namespace": textShape, "kinds": textsShape, "selector": selectorShape}),
}).fields

var generateShape = object(generatedFields).with(map[string]*shape{
	"generateExisting": flagShape, "synchronize": flagShape, "orphanDownstreamOnPolicyDelete": flagShape,
	"foreach": listOf(object(generatedFields).with(foreachFields)),
})

// verifyImages

var rekorShape = object(map[string]*shape{"url": textShape, "pubkey": textShape, "ignoreTlog": flagShape})

var ctlogShape = object(map[string]*shape{"ignoreSCT": flagShape, "pubkey": textShape, "tsaCertChain": textShape})

var attestorSetShape = object(map[string]*shape{
	"count": numberShape,
	"entries": listOf(object(map[string]*shape{
		"keys": object(map[string]*shape{
			"publicKeys": textShape, "signatureAlgorithm": textShape, "kms": textShape, "rekor": rekorShape, "ctlog": ctlogShape,
			"secret": object(map[string]*shape{"name": textShape, "namespace": textShape}),
		}),
		"certificates": object(map[string]*shape{"cert": textShape, "certChain": textShape, "rekor": rekorShape, "ctlog": ctlogShape}),
		"keyless": object(map[string]*shape{
			"rekor": rekorShape, "ctlog": ctlogShape, "issuer": textShape, "issuerRegExp": textShape, "subject": textShape, "subjectRegExp": textShape,
			"roots": textShape, "additionalExtensions": textMapShape,
		}),
		"attestor": freeShape, "annotations": textMapShape, "repository": textShape, "signatureAlgorithm": textShape,
	})),
})

var verifyImagesShape = object(map[string]*shape{
	"type": enum("Cosign", "SigstoreBundle", "Notary"), "failureAction": enum("Audit", "Enforce"),
	"image": textShape, "imageReferences": textsShape, "skipImageReferences": textsShape,
	"key": textShape, "roots": textShape, "subject": textShape, "issuer": textShape, "additionalExtensions": textMapShape, "annotations": textMapShape,
	"repository": textShape, "cosignOCI11": flagShape, "mutateDigest": flagShape, "verifyDigest": flagShape, "required": flagShape, "useCache": flagShape,
	"imageRegistryCredentials": credentialsShape,
	"attestors":                listOf(attestorSetShape),
	"attestations": listOf(object(map[string]*shape{
		"name": textShape, "type": textShape, "predicateType": textShape, "attestors": listOf(attestorSetShape), "conditions": freeShape,
	})),
	"validate": object(map[string]*shape{"message": textShape, "deny": denyShape}),
})

// exceptions

var exceptionShape = object(map[string]*shape{
	"apiVersion": textShape, "kind": textShape, "metadata": mapOf(freeShape),
	"spec": object(map[string]*shape{
		"background": flagShape, "match": matchAnyAllShape, "conditions": freeShape, "podSecurity": listOf(podSecurityExcludeShape),
		"exceptions": listOf(object(map[string]*shape{"policyName": textShape, "ruleNames": textsShape}, "policyName", "ruleNames")),
	}, "exceptions", "match"),
}, "spec")
