# Images come from registries that a ConfigMap names.
package image_registries

deny contains {"msg": concat("", ["images are of other registries: ", concat(", ", foreign)]), "reason": "Forbidden"} if {
	count(foreign) > 0
}

foreign := [image |
	some container in containers
	image := with_registry(container.image)
	not known(image)
]

known(image) if {
	some part in split(input.params.data.registries, ",")
	registry := trim_space(part)
	registry != ""
	startswith(image, registry)
}

with_registry(image) := concat("", ["docker.io/library/", image]) if not contains(image, "/")

with_registry(image) := image if names_host(image)

with_registry(image) := concat("", ["docker.io/", image]) if {
	contains(image, "/")
	not names_host(image)
}

names_host(image) if {
	contains(image, "/")
	regex.match(`[.:]|^localhost$`, split(image, "/")[0])
}

containers := array.concat(
	object.get(spec, "containers", []),
	array.concat(object.get(spec, "initContainers", []), object.get(spec, "ephemeralContainers", [])),
)

spec := input.object.spec if input.object.kind == "Pod"

spec := input.object.template.spec if input.object.kind == "PodTemplate"

spec := input.object.spec.jobTemplate.spec.template.spec if input.object.kind == "CronJob"

spec := input.object.spec.template.spec if not input.object.kind in {"Pod", "PodTemplate", "CronJob"}
