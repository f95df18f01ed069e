package semantics_test

import (
	"net/http"
	"strings"
)

// writes are the cases whose order matters, in a namespace of their own.
func (w *matrixWorld) writes() []matrixRequest {
	root := strings.Replace(w.path, "/matrix/", "/matrix-writes/", 1)
	var out []matrixRequest
	do := func(name, method, target, body string) {
		out = append(out, matrixRequest{name: name, method: method, target: root + target, body: body})
	}
	create := func(names string) {
		for _, name := range strings.Split(names, "") {
			do("create "+name+" for "+string(rune('0'+len(out)/10))+string(rune('0'+len(out)%10)), "POST", "", w.item+name+`","labels":{"app":"`+map[bool]string{true: "x", false: "y"}[name == "a"]+`"}}}`)
		}
	}
	create("ab")
	for _, c := range []struct{ name, query, body string }{
		{"uid of another", "", `{"preconditions":{"uid":"00000000-0000-0000-0000-000000000000"}}`},
		{"resourceVersion of another", "", `{"preconditions":{"resourceVersion":"1"}}`},
		{"resourceVersion x", "", `{"preconditions":{"resourceVersion":"x"}}`},
		{"unknown member", "", `{"foo":1,"dryRun":["All"]}`}, {"unknown member, strict", "", `{"kind":"DeleteOptions","apiVersion":"v1","foo":1,"dryRun":["All"]}`},
		{"propagationPolicy=x", "?propagationPolicy=x", ""}, {"propagationPolicy x", "", `{"propagationPolicy":"x"}`}, {"both policies", "", `{"propagationPolicy":"Orphan","orphanDependents":true}`},
		{"orphanDependents=x", "?dryRun=All&orphanDependents=x", ""}, {"gracePeriodSeconds -1", "", `{"gracePeriodSeconds":-1,"dryRun":["All"]}`}, {"gracePeriodSeconds=x", "?dryRun=All&gracePeriodSeconds=x", ""}, {"gracePeriodSeconds=-1 dry", "?gracePeriodSeconds=-1&dryRun=All", ""},
		{"dryRun=x", "?dryRun=x", ""}, {"dryRun x", "", `{"dryRun":["x"]}`}, {"dryRun=All", "?dryRun=All", ""}, {"dryRun All", "", `{"dryRun":["All"]}`}, {"dryRun=All, uid of another", "?dryRun=All", ""},
		{"dryRun in the body wins", "?dryRun=x", `{"dryRun":["All"]}`},
		{"another kind", "", `{"kind":"Pod","apiVersion":"v1"}`}, {"another version", "", `{"kind":"DeleteOptions","apiVersion":"x/v9","dryRun":["All"]}`}, {"not JSON", "", `{`}, {"a list", "", `[]`},
		{"options of policy/v1", "", `{"kind":"DeleteOptions","apiVersion":"policy/v1","dryRun":["All"]}`}, {"options of apps/v1", "", `{"kind":"DeleteOptions","apiVersion":"apps/v1","dryRun":["All"]}`},
		{"ignoreStoreReadError", "?dryRun=All&ignoreStoreReadErrorWithClusterBreakingPotential=true", ""}, {"ignoreStoreReadError alone", "?ignoreStoreReadErrorWithClusterBreakingPotential=true", ""},
		{"unknown option", "?dryRun=All&foo=bar", ""}, {"resourceVersion=1 in the query", "?dryRun=All&resourceVersion=1", ""}, {"preconditions.uid=x in the query", "?dryRun=All&preconditions.uid=x", ""},
	} {
		do("delete "+c.name, "DELETE", "/b"+c.query, c.body)
	}
	do("delete missing", "DELETE", "/missing", "")
	do("delete missing with uid", "DELETE", "/missing", `{"preconditions":{"uid":"x"}}`)
	create("b")
	do("delete b", "DELETE", "/b", "")
	do("delete b again", "DELETE", "/b", "")
	create("bcdefgh")
	for _, c := range []struct{ name, query, body string }{
		{"rv=x", "?resourceVersion=x", ""}, {"rv=FUTURE", "?resourceVersion=$FUTURE", ""}, {"match alone", "?resourceVersionMatch=Exact", ""}, {"rv=1 match=Exact", "?resourceVersion=1&resourceVersionMatch=Exact", ""}, {"rv=1 limit=1", "?resourceVersion=1&limit=1", ""},
		{"continue=broken", "?continue=broken", ""}, {"limit=-1 dry", "?limit=-1&dryRun=All", ""}, {"limit=x", "?limit=x", ""}, {"label=broken", "?labelSelector=a%3D%3D%3D", ""}, {"field=spec.x", "?fieldSelector=spec.x%3D1", ""},
		{"sendInitialEvents=true", "?sendInitialEvents=true", ""}, {"watch dry", "?watch=true&dryRun=All", ""}, {"timeoutSeconds=x", "?timeoutSeconds=x", ""}, {"dryRun=x", "?dryRun=x", ""}, {"propagationPolicy=x", "?propagationPolicy=x", ""},
		{"not JSON", "", `{`}, {"another kind", "", `{"kind":"Pod","apiVersion":"v1"}`}, {"uid of another", "", `{"preconditions":{"uid":"00000000-0000-0000-0000-000000000000"}}`}, {"resourceVersion of another", "", `{"preconditions":{"resourceVersion":"1"}}`},
		{"ignoreStoreReadError", "?ignoreStoreReadErrorWithClusterBreakingPotential=true", ""}, {"dryRun=All", "?dryRun=All", ""}, {"dryRun=All limit=1", "?dryRun=All&limit=1", ""}, {"app=none", "?labelSelector=app%3Dnone", ""}, {"app=x", "?labelSelector=app%3Dx", ""}, {"name=b", "?fieldSelector=metadata.name%3Db", ""},
		{"limit=1", "?limit=1", ""}, {"limit=1 rv=0", "?limit=1&resourceVersion=0", ""},
		{"continue", "?limit=1&continue=" + forge("meta.k8s.io/v1", -1, "g\u0000"), ""},
	} {
		do("deletecollection "+c.name, "DELETE", c.query, c.body)
		if c.name == "uid of another" || strings.HasPrefix(c.name, "limit=1") || c.name == "resourceVersion of another" || c.name == "continue" || c.name == "rv=1 match=Exact" {
			do("then list after "+c.name, "GET", "", "")
		}
	}
	do("deletecollection", "DELETE", "", "")
	do("then list", "GET", "", "")
	do("deletecollection of nothing", "DELETE", "", "")
	create("ab")
	for _, c := range []struct{ name, method, target, body string }{
		{"create again", "POST", "", w.item + `a"}}`}, {"create with resourceVersion", "POST", "", w.item + `z","resourceVersion":"1"}}`}, {"create dryRun=x", "POST", "?dryRun=x", w.item + `z"}}`}, {"create unknown option", "POST", "?dryRun=All&foo=bar", w.item + `z"}}`}, {"create without name", "POST", "", w.item + `"}}`},
		{"create with another namespace", "POST", "", w.item + `z","namespace":"other"}}`}, {"create with uid", "POST", "?dryRun=All", w.item + `z","uid":"x"}}`},
		{"create at a name", "POST", "/z", w.item + `z"}}`}, {"create fieldManager too long", "POST", "?fieldManager=" + strings.Repeat("x", 129), w.item + `z"}}`}, {"create fieldManager unprintable", "POST", "?fieldManager=%00", w.item + `z"}}`}, {"create fieldValidation=x", "POST", "?fieldValidation=x", w.item + `z"}}`},
		{"update stale", "PUT", "/a", w.item + `a","resourceVersion":"1"}}`}, {"update rv=x", "PUT", "/a", w.item + `a","resourceVersion":"x"}}`}, {"update without rv", "PUT", "/a?dryRun=All", w.item + `a"}}`}, {"update uid of another", "PUT", "/a?dryRun=All", w.item + `a","uid":"x"}}`}, {"update another name", "PUT", "/a", w.item + `b"}}`},
		{"update without name", "PUT", "/a", w.item + `"}}`}, {"update another namespace", "PUT", "/a", w.item + `a","namespace":"other"}}`}, {"update missing", "PUT", "/missing", w.item + `missing","resourceVersion":"1"}}`}, {"update missing without rv dry", "PUT", "/missing?dryRun=All", w.item + `missing"}}`}, {"update missing with uid", "PUT", "/missing?dryRun=All", w.item + `missing","uid":"x","resourceVersion":"1"}}`}, {"update missing with uid and without rv", "PUT", "/missing?dryRun=All", w.item + `missing","uid":"x"}}`},
		{"update a collection", "PUT", "", w.item + `a"}}`}, {"update rv=0", "PUT", "/a?dryRun=All", w.item + `a","resourceVersion":"0"}}`},
		{"patch stale", "PATCH", "/a", `{"metadata":{"resourceVersion":"1"}}`}, {"patch rv=x", "PATCH", "/a", `{"metadata":{"resourceVersion":"x"}}`}, {"patch rv=null", "PATCH", "/a?dryRun=All", `{"metadata":{"resourceVersion":null}}`}, {"patch rv empty", "PATCH", "/a?dryRun=All", `{"metadata":{"resourceVersion":""}}`}, {"patch rv=0", "PATCH", "/a?dryRun=All", `{"metadata":{"resourceVersion":"0"}}`}, {"patch uid", "PATCH", "/a", `{"metadata":{"uid":"x"}}`}, {"patch name", "PATCH", "/a", `{"metadata":{"name":"b"}}`}, {"patch missing", "PATCH", "/missing", `{}`},
		{"patch dryRun=x", "PATCH", "/a?dryRun=x", `{}`}, {"patch force", "PATCH", "/a?force=true", `{}`}, {"patch a collection", "PATCH", "", `{}`}, {"patch kind", "PATCH", "/a", `{"kind":"Other"}`}, {"patch not JSON", "PATCH", "/a", `{`},
	} {
		do(c.name, c.method, c.target, c.body)
	}
	for i := range out {
		if out[i].method == http.MethodPatch {
			out[i].contentType = "application/merge-patch+json"
		}
	}
	return out
}
