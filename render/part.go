package render

// Part returns the places that made the first occurrence of part in a field
// that is a text. A text that was made of several values, such as an image of
// repository and tag, has a place for each. It returns nil if only the places
// of the whole field are known.
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
