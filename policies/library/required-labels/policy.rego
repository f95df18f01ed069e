# Objects must have labels. Which ones is said by a ConfigMap.
package required_labels

deny contains concat("", ["labels are missing: ", concat(", ", missing)]) if {
	changes_labels
	count(missing) > 0
}

deny contains "params have no labels" if {
	changes_labels
	not input.params.data.labels
}

missing := [label |
	some part in split(input.params.data.labels, ",")
	label := trim_space(part)
	label != ""
	object.get(labels, label, "") == ""
]

labels := object.get(input.object.metadata, "labels", {})

changes_labels if input.oldObject == null

changes_labels if object.get(input.oldObject.metadata, "labels", {}) != labels
