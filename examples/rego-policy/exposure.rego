package exposure

deny contains concat("", ["a service of type ", input.object.spec.type, " is open to the world"]) if {
	input.object.spec.type in {"NodePort", "LoadBalancer"}
	not object.get(input.object.metadata, ["annotations", "example.com/open"], false)
}

warn contains "external IPs are not checked" if count(input.object.spec.externalIPs) > 0
