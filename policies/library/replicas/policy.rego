# Workloads have as many replicas as a ConfigMap says. None at all is allowed: it is off.
package replicas

deny contains {"msg": concat("", [format_int(replicas, 10), " replicas are less than ", format_int(least, 10)]), "field": "spec.replicas"} if {
	replicas != 0
	replicas < least
}

deny contains {"msg": concat("", [format_int(replicas, 10), " replicas are more than ", format_int(most, 10)]), "field": "spec.replicas"} if {
	replicas > most
}

least := to_number(input.params.data.min)

most := to_number(input.params.data.max)

default replicas := 1

replicas := input.object.spec.replicas

replicas := 0 if {
	input.object.kind == "Scale"
	not input.object.spec.replicas
}
