// Package apply tracks in metadata.managedFields who owns which field, and merges
// server-side apply, over structured-merge-diff as k8s.io/apimachinery wires it
// (KEP-555). It implements rest.FieldManager.
package apply
