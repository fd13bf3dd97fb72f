package flux

// external returns the artifact that an ArtifactGenerator makes.
func (s sources) external(ref reference) (artifact, error) {
	return artifact{}, s.missing(s.at, "missing-source", "there is no %s", ref)
}
