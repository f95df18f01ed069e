package semantics_test

import "regexp"

// deviation is where this server answers otherwise, and why that is better. Its members cases, upstream and ours
// are regular expressions of a whole case's name, of upstream's answer and of this server's.
type deviation struct {
	cases, upstream, ours string
	reason                string
}

// deviations are those with the watch cache and without it.
var deviations = []deviation{
	// Where upstream answers 500 to a client's mistake.
	{`(get|watch) .*rv=(x|-1).*`, `500 .*`, `400 Failure 400 BadRequest "invalid resource version: .*`, "no request may be able to cause a 500"},
	{`(update|patch) rv=x`, `500 .*`, `400 Failure 400 BadRequest "invalid resource version: .*`, "no request may be able to cause a 500"},
	{`create with resourceVersion`, `500 .*`, `400 Failure 400 BadRequest "resourceVersion should not be set on objects to be created"`, "no request may be able to cause a 500"},
	{`get c as=PartialObjectMetadataList`, `500 .*|406 .*\(\*core.*`, `406 .*"you requested PartialObjectMetadataList, but the requested object is not a list \(\w+\)"`, "no 500, and kinds, not types of Go"},

	// Pages.
	{`all limit=2 continue=PAGE`, `200 \[a@a2 b@b2\] .*`, `200 \[c@c2 d@d2\] at=PAGE continue=\(meta.k8s.io/v1 "d\\x00" PAGE\)`, "a list of all namespaces that selects one reads only that one, so its tokens are of that one"},
	{`all limit=2 continue=ALL`, `200 .*`, `200 \[\] at=LATEST`, "a list of all namespaces that selects one reads only that one, so its tokens are of that one"},
	{`list continue at -2`, `200 .*`, `400 Failure 400 BadRequest "invalid continue token: .*`, "no server gives such a token"},
	{`list rv=FUTURE( match=Exact)?( limit=2)? name=c`, `504 Failure .*`, `504 Retry-After=1 Failure 504 Timeout .* retryAfterSeconds=1 \{ResourceVersionTooLarge .*`, "when to come again is said to all"},
	{`list as=PartialObjectMetadataList app=none`, `200 PartialObjectMetadataListnull .*`, `200 PartialObjectMetadataList\[\] at=LATEST`, "items is never null"},

	// Media types.
	{`(get c|list|watch) as(=Other|=Table v9| text)`, `406 .*`, `406 Failure 406 NotAcceptable "only the following media types are accepted: application/json.*`, "what can be had for this resource by this verb, in one form"},
	{`list as=PartialObjectMetadata`, `406 .*\*.*`, `406 Failure 406 NotAcceptable "you requested PartialObjectMetadata, but the requested object is a list \(\w+List\)"`, "kinds, not types of Go"},
	{`watch as=PartialObjectMetadataList`, `200 end`, `200 (ADDED PartialObjectMetadata .@.., ){6}MODIFIED PartialObjectMetadata c@NEW, …`, "an event for a list's items, not a stream that breaks off"},

	// Words.
	{`delete(collection)? (not JSON|a list|another kind)`, `400 .*`, `400 Failure 400 BadRequest "(unexpected end of JSON input.*|json: cannot unmarshal array.*|no kind \\"Pod\\" is registered for version \\"v1\\"")`, "nothing of Go's files and types"},
	{`patch not JSON`, `400 .*`, `400 Failure 400 BadRequest "error decoding patch: unexpected end of JSON input \(offset 1\)"`, "what is wrong, and where"},
	{`patch kind`, `422 .*`, `400 Failure 400 BadRequest "a patch must not change apiVersion and kind of the object: .*`, "the same for all kinds, without the object in the text"},
	{`patch uid`, `422 .*\} \{.*`, `422 .* \{FieldValueInvalid metadata.uid "Invalid value: \\"x\\": field is immutable"\}`, "a cause is named once"},
	{`update uid of another`, `409 .*StorageError.*`, `409 Failure 409 Conflict "Operation cannot be fulfilled on .* \\"a\\": Precondition failed: UID in precondition: x, UID in object meta: UID".*`, "nothing of the storage's keys"},
	{`delete ignoreStoreReadError.*`, `409 .*StorageError.*`, `409 Failure 409 Conflict "Operation cannot be fulfilled on .* \\"b\\": object can be read: it is not deleted as one that cannot".*`, "nothing of the storage's keys"},
	{`(patch|update) a collection`, `40[05] .*`, `405 Failure 405 MethodNotAllowed "the server does not allow this method on the requested resource \(.*`, "the same for all kinds, and names the resource"},
	{`create at a name`, `201 .*`, `405 Failure 405 MethodNotAllowed .*`, "no kind can be created below a name"},
}

// deviationsOfCache are those of the server with its watch cache.
var deviationsOfCache = []deviation{
	// What a cache remembers although the storage has compacted it is right.
	{`list rv=OLD match=Exact`, `410 .*`, `200 \[a@a1 b@b2 c@c1 d@d1 e@e1\] at=OLDPAGE`, "the cache still has that state"},
	{`list rv=OLD( match=Exact)? limit=2`, `410 .*`, `200 \[a@a1 b@b2\] at=OLDPAGE continue=\(meta.k8s.io/v1 "b\\x00" OLDPAGE\) remaining=3`, "the cache still has that state"},
	{`list rv=OLD match=Exact app=x`, `410 .*`, `200 \[a@a1 c@c1 e@e1\] at=OLDPAGE`, "the cache still has that state"},
	{`list rv=OLD( match=Exact)? limit=2 app=x`, `410 .*`, `200 \[a@a1 c@c1\] at=OLDPAGE continue=\(meta.k8s.io/v1 "c\\x00" OLDPAGE\)`, "the cache still has that state"},
	{`list rv=OLD match=Exact( limit=2)? name=c`, `410 .*`, `200 \[c@c1\] at=OLDPAGE`, "the cache still has that state"},
	{`list( rv=0)? continue=OLDPAGE`, `410 .*`, `200 \[c@c1 d@d1 e@e1\] at=OLDPAGE`, "the cache still has that state"},
	{`list( rv=0)? limit=2 continue=OLDPAGE`, `410 .*`, `200 \[c@c1 d@d1\] at=OLDPAGE continue=\(meta.k8s.io/v1 "d\\x00" OLDPAGE\) remaining=1`, "the cache still has that state"},
	{`list( rv=0)?( limit=2)? continue=OLDPAGE app=x`, `410 .*`, `200 \[c@c1 e@e1\] at=OLDPAGE`, "the cache still has that state"},
	{`list( rv=0)?( limit=2)? continue=OLDPAGE name=c`, `410 .*`, `200 \[c@c1\] at=OLDPAGE`, "the cache still has that state"},
	{`list as=Table continue=OLDPAGE`, `410 .*`, `200 Table columns=[23] rows=\[c:PartialObjectMetadata:c@c1 d:PartialObjectMetadata:d@d1 e:PartialObjectMetadata:e@e1\] at=OLDPAGE`, "the cache still has that state"},

	// Pages.
	{`list rv=0 limit=2 continue=PAGE`, `200 \[c@c2 d@d2 e@e1 f@f2\] at=PAGE`, `200 \[c@c2 d@d2\] at=PAGE continue=\(meta.k8s.io/v1 "d\\x00" PAGE\) remaining=2`, "a further page is a page at any resourceVersion"},
	{`list rv=0 limit=2 continue=PAGE app=x`, `200 \[c@c2 e@e1\] at=PAGE`, `200 \[c@c2 e@e1\] at=PAGE continue=\(meta.k8s.io/v1 "e\\x00" PAGE\)`, "a further page is a page at any resourceVersion"},
}

// deviationsWithoutCache are those of the server without it, from a kube-apiserver without one.
var deviationsWithoutCache = []deviation{
	{`(get|list|deletecollection) .*(rv=(FUTURE|18446744073709551615)|at future).*`, `504 Failure .*`, `504 Retry-After=1 Failure 504 Timeout .* retryAfterSeconds=1 \{ResourceVersionTooLarge .*`, "when to come again is said to all"},
	{`watch rv=FUTURE .*`, `200 ERROR Failure 504 .* retryAfterSeconds=[23] .*`, `200 ERROR Failure 504 .* retryAfterSeconds=1 \{ResourceVersionTooLarge .*`, "the same as with the cache, not a random number"},
	{`list rv=9223372036854775808 match=Exact`, `500 .*`, `504 Retry-After=1 Failure 504 Timeout .*`, "no request may be able to cause a 500"},
	{`watch rv=OLD.*`, `200 ERROR Failure 500 .*PrevKv=nil.*`, `200 ERROR Failure 410 Expired "The resourceVersion for the provided watch is too old. \(the value before revision c2 is compacted\)", end`, "what the change was from is compacted: a client that lists again is well, and 500 tells it nothing"},
}

// whole reports whether text is all of what pattern says.
func whole(pattern, text string) bool {
	return regexp.MustCompile(`^(?s:` + pattern + `)$`).MatchString(text)
}

// deviationOf returns the first that a case falls under, -1 for none.
func deviationOf(deviations []deviation, name, upstream string) int {
	for i, d := range deviations {
		if whole(d.cases, name) && whole(d.upstream, upstream) {
			return i
		}
	}
	return -1
}
