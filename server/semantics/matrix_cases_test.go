package semantics_test

import (
	"net/http"
	"strings"
)

// option is one value of one parameter, and how a case is named that has it.
type option struct{ name, query string }

func options(param string, values ...string) []option {
	out := []option{{}}
	for _, v := range values {
		out = append(out, option{param + "=" + strings.TrimPrefix(v, "$"), param + "=" + v})
	}
	return out
}

// The dimensions of the matrix.
var (
	matrixRevisions = []option{{},
		{"rv=0", "resourceVersion=0"}, {"rv=1", "resourceVersion=1"}, {"rv=OLD", "resourceVersion=$OLD"}, {"rv=N", "resourceVersion=$N"},
		{"rv=FUTURE", "resourceVersion=$FUTURE"}, {"rv=x", "resourceVersion=x"}}
	matrixMatches = []option{{},
		{"match=NotOlderThan", "resourceVersionMatch=NotOlderThan"}, {"match=Exact", "resourceVersionMatch=Exact"}, {"match=Other", "resourceVersionMatch=Other"}}
	matrixLimits    = options("limit", "2")
	matrixTokens    = options("continue", "$PAGE", "$OLDPAGE", "broken")
	matrixSelectors = []option{{}, {"app=x", "labelSelector=app%3Dx"}, {"name=c", "fieldSelector=metadata.name%3Dc"}}
	matrixInitial   = options("sendInitialEvents", "true", "false")
	matrixBookmarks = options("allowWatchBookmarks", "true")
)

// product calls f with every combination of options: its name and its query.
func product(f func(name, query string), dimensions ...[]option) {
	var names, queries []string
	var walk func(i int)
	walk = func(i int) {
		if i == len(dimensions) {
			f(strings.Join(names, " "), strings.Join(queries, "&"))
			return
		}
		for _, o := range dimensions[i] {
			if o.query == "" {
				walk(i + 1)
				continue
			}
			names, queries = append(names, o.name), append(queries, o.query)
			walk(i + 1)
			names, queries = names[:len(names)-1], queries[:len(queries)-1]
		}
	}
	walk(0)
}

// reads are the cases that wait for nothing but an answer.
func (w *matrixWorld) reads() []matrixRequest {
	var out []matrixRequest
	get := func(name, target, accept string) {
		out = append(out, matrixRequest{name: strings.TrimSpace(name), method: http.MethodGet, target: target, accept: accept})
	}
	product(func(name, query string) { get("list "+name, w.path+"?"+query, "") }, matrixRevisions, matrixMatches, matrixLimits, matrixTokens, matrixSelectors)
	for _, object := range []string{"c", "missing"} {
		product(func(name, query string) { get("get "+object+" "+name, w.path+"/"+object+"?"+query, "") }, matrixRevisions, matrixMatches)
	}
	for _, c := range matrixMore {
		get("list "+c.name, w.path+"?"+c.query, accepts[c.accept])
	}
	for _, c := range matrixGets {
		get("get c "+c.name, w.path+"/c?"+c.query, accepts[c.accept])
	}
	of := "?fieldSelector=metadata.namespace%3Dmatrix&"
	get("all", w.all+of, "")
	get("all limit=2", w.all+of+"limit=2", "")
	get("all rv=N limit=2", w.all+of+"limit=2&resourceVersion=$N", "")
	get("all limit=2 continue=PAGE", w.all+of+"limit=2&continue=$PAGE", "")
	get("all limit=2 continue=ALL", w.all+of+"limit=2&continue="+forge("meta.k8s.io/v1", -1, "matrix/b\u0000"), "")
	get("all name=c", w.all+of[:len(of)-1]+",metadata.name%3Dc", "")
	get("all name=c rv=0 limit=1", w.all+of[:len(of)-1]+",metadata.name%3Dc&limit=1&resourceVersion=0", "")
	get("list of nothing", strings.Replace(w.path, "/matrix/", "/none/", 1), "")
	get("list of nothing limit=1", strings.Replace(w.path, "/matrix/", "/none/", 1)+"?limit=1", "")
	get("list of nothing rv=0", strings.Replace(w.path, "/matrix/", "/none/", 1)+"?resourceVersion=0", "")
	get("list of nothing as=Table", strings.Replace(w.path, "/matrix/", "/none/", 1), accepts["table"])
	get("get of nothing", strings.Replace(w.path, "/matrix/", "/none/", 1)+"/c", "")
	return out
}

// accepts are short names of what a client may want.
var accepts = map[string]string{
	"table":       "application/json;as=Table;g=meta.k8s.io;v=v1",
	"oldtable":    "application/json;as=Table;g=meta.k8s.io;v=v1beta1",
	"kubectl":     "application/json;as=Table;v=v1;g=meta.k8s.io,application/json;as=Table;v=v1beta1;g=meta.k8s.io,application/json",
	"partial":     "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1",
	"partiallist": "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1",
	"unknown":     "application/json;as=Other;g=meta.k8s.io;v=v1",
	"tablev9":     "application/json;as=Table;g=meta.k8s.io;v=v9",
	"text":        "text/plain",
}

type matrixCase struct{ name, query, accept string }

// matrixMore are lists beside the product.
var matrixMore = []matrixCase{
	{"limit=0", "limit=0", ""}, {"limit=1", "limit=1", ""}, {"limit=100", "limit=100", ""}, {"limit=-1", "limit=-1", ""}, {"limit=x", "limit=x", ""}, {"limit twice", "limit=2&limit=3", ""}, {"limit=", "limit=", ""},
	{"limit=5 of 5", "limit=5&fieldSelector=metadata.name!%3Dd", ""}, {"limit=huge", "limit=9223372036854775808", ""},
	{"limit=2 app in (x,y)", "limit=2&labelSelector=app+in+(x,y)", ""}, {"limit=2 !app", "limit=2&labelSelector=!app", ""},
	{"limit=6", "limit=6", ""}, {"limit=2 name!=c", "limit=2&fieldSelector=metadata.name!%3Dc", ""},
	{"name!=c", "fieldSelector=metadata.name!%3Dc", ""}, {"name=none", "fieldSelector=metadata.name%3Dnone", ""}, {"name=..", "fieldSelector=metadata.name%3D..", ""}, {"name=", "fieldSelector=metadata.name%3D", ""},
	{"name=c,name=d", "fieldSelector=metadata.name%3Dc,metadata.name%3Dd", ""}, {"namespace=other", "fieldSelector=metadata.namespace%3Dother", ""}, {"namespace=matrix name=c", "fieldSelector=metadata.namespace%3Dmatrix,metadata.name%3Dc", ""},
	{"field=spec.x", "fieldSelector=spec.x%3D1", ""}, {"field=broken", "fieldSelector=%3D%3D", ""}, {"field without value", "fieldSelector=metadata.name", ""}, {"label=broken", "labelSelector=a%3D%3D%3D", ""}, {"label=-", "labelSelector=-a", ""}, {"label=value too long", "labelSelector=a%3D" + strings.Repeat("x", 64), ""},
	{"timeoutSeconds=-1", "timeoutSeconds=-1", ""}, {"timeoutSeconds=0", "timeoutSeconds=0", ""}, {"timeoutSeconds=x", "timeoutSeconds=x", ""}, {"timeout=x", "timeout=x", ""}, {"timeout=0s", "timeout=0s", ""}, {"timeout=1h", "timeout=1h", ""}, {"timeout=-1s", "timeout=-1s", ""}, {"timeout=2", "timeout=2", ""},
	{"unknown option", "foo=bar", ""}, {"watch=false", "watch=false", ""}, {"watch=0", "watch=0", ""}, {"allowWatchBookmarks=x", "allowWatchBookmarks=x", ""}, {"sendInitialEvents=x", "sendInitialEvents=x", ""}, {"sendInitialEvents=true", "sendInitialEvents=true", ""},
	{"sendInitialEvents=false", "sendInitialEvents=false", ""}, {"allowWatchBookmarks=true", "allowWatchBookmarks=true", ""}, {"shardSelector=x", "shardSelector=x", ""}, {"pretty=true", "pretty=true", ""},
	{"rv=-1", "resourceVersion=-1", ""}, {"rv=1.5", "resourceVersion=1.5", ""}, {"rv=00", "resourceVersion=00", ""}, {"rv=18446744073709551615", "resourceVersion=18446744073709551615", ""}, {"rv=18446744073709551616", "resourceVersion=18446744073709551616", ""},
	{"rv=-1 limit=2", "resourceVersion=-1&limit=2", ""}, {"rv=LATEST", "resourceVersion=$LATEST", ""}, {"rv=LATEST match=Exact", "resourceVersion=$LATEST&resourceVersionMatch=Exact", ""},
	{"rv=LATEST match=Exact limit=2", "resourceVersion=$LATEST&resourceVersionMatch=Exact&limit=2", ""}, {"rv=9223372036854775808 match=Exact", "resourceVersion=9223372036854775808&resourceVersionMatch=Exact", ""},
	{"continue=inconsistent", "continue=" + forge("meta.k8s.io/v1", -1, "b\u0000"), ""}, {"continue=inconsistent limit=2", "limit=2&continue=" + forge("meta.k8s.io/v1", -1, "b\u0000"), ""},
	{"continue=inconsistent limit=2 app=x", "limit=2&labelSelector=app%3Dx&continue=" + forge("meta.k8s.io/v1", -1, "b\u0000"), ""}, {"continue=inconsistent rv=0", "resourceVersion=0&continue=" + forge("meta.k8s.io/v1", -1, "b\u0000"), ""},
	{"continue at 1", "continue=" + forge("meta.k8s.io/v1", 1, "b\u0000"), ""}, {"continue at future", "continue=" + forge("meta.k8s.io/v1", 987654321, "b\u0000"), ""},
	{"continue of another version", "continue=" + forge("meta.k8s.io/v9", -1, "b\u0000"), ""}, {"continue without revision", "continue=" + forge("meta.k8s.io/v1", 0, "b\u0000"), ""}, {"continue at -2", "continue=" + forge("meta.k8s.io/v1", -2, "b\u0000"), ""},
	{"continue without key", "continue=" + forge("meta.k8s.io/v1", -1, ""), ""}, {"continue unclean", "continue=" + forge("meta.k8s.io/v1", -1, "../b"), ""}, {"continue unclean within", "continue=" + forge("meta.k8s.io/v1", -1, "b/../c"), ""}, {"continue with slash", "continue=" + forge("meta.k8s.io/v1", -1, "/b"), ""},
	{"continue past all", "continue=" + forge("meta.k8s.io/v1", -1, "zzz"), ""}, {"continue past all limit=2", "limit=2&continue=" + forge("meta.k8s.io/v1", -1, "zzz"), ""}, {"continue=not JSON", "continue=eHg", ""}, {"continue=", "continue=", ""},
	{"as=Table", "", "table"}, {"as=Table v1beta1", "", "oldtable"}, {"as kubectl", "", "kubectl"}, {"as=Table limit=2", "limit=2", "table"}, {"as=Table limit=2 continue=PAGE", "limit=2&continue=$PAGE", "table"}, {"as=Table rv=0 limit=2", "resourceVersion=0&limit=2", "table"},
	{"as=Table rv=N match=Exact", "resourceVersion=$N&resourceVersionMatch=Exact", "table"}, {"as=Table includeObject=None", "includeObject=None", "table"}, {"as=Table includeObject=Object", "includeObject=Object", "table"}, {"as=Table includeObject=Metadata", "includeObject=Metadata", "table"},
	{"as=Table includeObject=x", "includeObject=x", "table"}, {"as=Table app=none", "labelSelector=app%3Dnone", "table"}, {"as=Table continue=OLDPAGE", "continue=$OLDPAGE", "table"}, {"as=Table v9", "", "tablev9"}, {"as=Other", "", "unknown"}, {"as text", "", "text"},
	{"as=PartialObjectMetadataList", "", "partiallist"}, {"as=PartialObjectMetadataList limit=2", "limit=2", "partiallist"}, {"as=PartialObjectMetadataList rv=0", "resourceVersion=0", "partiallist"}, {"as=PartialObjectMetadataList app=none", "labelSelector=app%3Dnone", "partiallist"},
	{"as=PartialObjectMetadata", "", "partial"},
}

// matrixGets are GETs of an object beside the product.
var matrixGets = []matrixCase{
	{"watch=1", "watch=1", ""}, {"limit=-1", "limit=-1", ""}, {"unknown option", "foo=bar", ""}, {"rv=-1", "resourceVersion=-1", ""}, {"rv=LATEST", "resourceVersion=$LATEST", ""}, {"rv=00", "resourceVersion=00", ""}, {"name=d", "fieldSelector=metadata.name%3Dd", ""},
	{"as=Table", "", "table"}, {"as=Table includeObject=None", "includeObject=None", "table"}, {"as=Table includeObject=x", "includeObject=x", "table"}, {"as=PartialObjectMetadata", "", "partial"}, {"as=PartialObjectMetadataList", "", "partiallist"}, {"as=Other", "", "unknown"},
	{"timeoutSeconds=x", "timeoutSeconds=x", ""}, {"timeout=x", "timeout=x", ""},
}

// watches are the cases that are read up to the mark or to their end.
func (w *matrixWorld) watches() []matrixRequest {
	var out []matrixRequest
	add := func(name, target, accept string) {
		if !strings.Contains(target, "timeoutSeconds") {
			seconds := "60"
			if strings.Contains(target, "FUTURE") {
				seconds = "6" // nothing comes: 3 s to wait for the revision, and a bookmark before the end
			}
			target += "&timeoutSeconds=" + seconds
		}
		out = append(out, matrixRequest{name: strings.TrimSpace(name), method: http.MethodGet, target: target, accept: accept, watch: true})
	}
	product(func(name, query string) { add("watch "+name, w.path+"?watch=true&"+query, "") }, matrixRevisions, matrixMatches, matrixLimits, matrixSelectors, matrixInitial, matrixBookmarks)
	initial := "sendInitialEvents=true&allowWatchBookmarks=true&resourceVersionMatch=NotOlderThan"
	for _, c := range []matrixCase{
		{"timeoutSeconds=1", "resourceVersion=$LATEST&timeoutSeconds=1&fieldSelector=metadata.name!%3Dc", ""}, {"timeoutSeconds=1 rv=0", "resourceVersion=0&timeoutSeconds=1&fieldSelector=metadata.name!%3Dc", ""}, {"timeoutSeconds=5 bookmarks", "resourceVersion=$LATEST&timeoutSeconds=5&allowWatchBookmarks=true&labelSelector=app%3Dnone", ""},
		{"timeoutSeconds=5 bookmarks rv=N app=none", "resourceVersion=$N&timeoutSeconds=5&allowWatchBookmarks=true&labelSelector=app%3Dnone", ""}, {"timeoutSeconds=5 no bookmarks", "resourceVersion=$LATEST&timeoutSeconds=5&labelSelector=app%3Dnone", ""},
		{"timeoutSeconds=0", "resourceVersion=$N&timeoutSeconds=0", ""}, {"timeoutSeconds=-1", "resourceVersion=$LATEST&timeoutSeconds=-1&labelSelector=app%3Dnone", ""}, {"timeoutSeconds=x", "timeoutSeconds=x", ""},
		{"app=none initial", initial + "&labelSelector=app%3Dnone&timeoutSeconds=4", ""}, {"rv=LATEST", "resourceVersion=$LATEST", ""}, {"rv=LATEST initial", initial + "&resourceVersion=$LATEST", ""}, {"rv=-1", "resourceVersion=-1", ""}, {"rv=00", "resourceVersion=00", ""},
		{"limit=-1", "limit=-1", ""}, {"continue=PAGE", "continue=$PAGE", ""}, {"continue=PAGE rv=N", "continue=$PAGE&resourceVersion=$N", ""}, {"continue=broken rv=N", "continue=broken&resourceVersion=$N", ""},
		{"continue=PAGE initial", initial + "&continue=$PAGE", ""}, {"name!=c rv=N", "fieldSelector=metadata.name!%3Dc&resourceVersion=$N&timeoutSeconds=4", ""}, {"name=d rv=N", "fieldSelector=metadata.name%3Dd&resourceVersion=$N&timeoutSeconds=4", ""}, {"name=none initial", initial + "&fieldSelector=metadata.name%3Dnone&timeoutSeconds=4", ""},
		{"app=y rv=N", "labelSelector=app%3Dy&resourceVersion=$N&timeoutSeconds=4", ""}, {"namespace=other rv=0", "fieldSelector=metadata.namespace%3Dother&resourceVersion=0&timeoutSeconds=4", ""}, {"field=spec.x", "fieldSelector=spec.x%3D1", ""}, {"label=broken", "labelSelector=a%3D%3D%3D", ""},
		{"as=Table rv=0", "resourceVersion=0", "table"}, {"as=Table rv=N", "resourceVersion=$N", "table"}, {"as=Table initial", initial, "table"}, {"as=Table initial includeObject=None", initial + "&includeObject=None", "table"}, {"as=Table initial includeObject=Object", initial + "&includeObject=Object", "table"},
		{"as=Table includeObject=x", "includeObject=x", "table"}, {"as=Table bookmarks", "resourceVersion=$LATEST&timeoutSeconds=5&allowWatchBookmarks=true&labelSelector=app%3Dnone", "table"}, {"as=Table rv=1", "resourceVersion=1", "table"}, {"as kubectl", "resourceVersion=$N", "kubectl"},
		{"as=PartialObjectMetadata rv=0", "resourceVersion=0", "partial"}, {"as=PartialObjectMetadata rv=N", "resourceVersion=$N", "partial"}, {"as=PartialObjectMetadata initial", initial, "partial"}, {"as=PartialObjectMetadata rv=1", "resourceVersion=1", "partial"},
		{"as=PartialObjectMetadataList", "resourceVersion=0", "partiallist"}, {"as=Other", "", "unknown"}, {"as=Table v9", "", "tablev9"}, {"as text", "", "text"},
	} {
		add("watch "+c.name, w.path+"?watch=true&"+c.query, accepts[c.accept])
	}
	for _, value := range []string{"maybe", "1", ""} {
		add("watch="+value+" in the query", w.path+"?resourceVersion=$N&fieldSelector=metadata.name%3Da&timeoutSeconds=4&watch="+value, "")
	}
	add("watch=1 rv=N", w.path+"?watch=1&resourceVersion=$N", "")
	add("watch all rv=N", w.all+"?watch=1&resourceVersion=$N&fieldSelector=metadata.namespace%3Dmatrix", "")
	add("watch all initial", w.all+"?watch=1&fieldSelector=metadata.namespace%3Dmatrix&"+initial, "")
	add("watch of nothing initial", strings.Replace(w.path, "/matrix/", "/none/", 1)+"?watch=1&timeoutSeconds=4&"+initial, "")
	add("watch of nothing", strings.Replace(w.path, "/matrix/", "/none/", 1)+"?watch=1&timeoutSeconds=4", "")
	before, after, _ := strings.Cut(w.path, "/namespaces/")
	add("old watch rv=N", before+"/watch/namespaces/"+after+"?resourceVersion=$N", "")
	add("old watch", before+"/watch/namespaces/"+after+"?", "")
	add("old watch c rv=N", before+"/watch/namespaces/"+after+"/c?resourceVersion=$N", "")
	add("old watch c", before+"/watch/namespaces/"+after+"/c?", "")
	add("old watch c name=d", before+"/watch/namespaces/"+after+"/c?fieldSelector=metadata.name%3Dd", "")
	add("old watch all rv=N", before+"/watch/"+w.name+"?fieldSelector=metadata.namespace%3Dmatrix&resourceVersion=$N", "")
	return out
}
