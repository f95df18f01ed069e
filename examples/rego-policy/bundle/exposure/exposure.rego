package exposure

# Who may open what is data: a bundle with other data is another bundle.
deny contains sprintf("team %s may not open a service of type %s", [team, input.object.spec.type]) if {
	input.object.spec.type in {"NodePort", "LoadBalancer"}
	not team in data.exposure.teams
}

team := object.get(input.object.metadata, ["labels", "team"], "none")
