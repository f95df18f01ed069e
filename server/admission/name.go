package admission

// NameOf returns the name for an answer about a request: that of the object, or as much of it as is known.
func NameOf(a *Attributes) string {
	if a.Name != "" {
		return a.Name
	}
	if a.Object != nil {
		metadata := a.Object.Get("metadata")
		if name := metadata.Get("name").String(); name != "" {
			return name
		}
		if prefix := metadata.Get("generateName").String(); prefix != "" {
			return prefix
		}
	}
	return "Unknown"
}
