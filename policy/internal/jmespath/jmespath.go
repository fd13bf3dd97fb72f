// Package jmespath searches JSON values with the JMESPath of Kyverno: the
// language of jmespath.org, in which a missing key is an error of its own
// ([NotFoundError]) and to which Kyverno adds functions.
package jmespath
