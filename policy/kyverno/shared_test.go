package kyverno

// corpora is other people's data, beside the project where it is there at all.
const corpora = "../../../shared/corpora"
