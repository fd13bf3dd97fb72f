package render

// Part returns the places that made a part of a field that is a text: the
// first one that reads as given. A text made of several values, such as an
// image of repository and tag, has a place for each. It is nil where no more is
// known of the part than of the field.
func (o *Object) Part(pointer, part string) []Origin {
	if o == nil || part == "" {
		return nil
	}
	if p, ok := o.Provenance.(interface {
		Part(pointer, part string) []Origin
	}); ok {
		return p.Part(pointer, part)
	}
	return nil
}
