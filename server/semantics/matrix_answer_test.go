package semantics_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// matrixRequest is one case: what is asked.
type matrixRequest struct {
	name                              string
	method, target, body, contentType string
	accept                            string
	// watch says that a 200 is a stream of events, read to the mark or to its end.
	watch bool
}

// answer is everything that is compared of a response, in words that name moments, not revisions.
func (w *matrixWorld) answer(resp *http.Response, body []byte) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%d", resp.StatusCode)
	if after := resp.Header.Get("Retry-After"); after != "" {
		fmt.Fprintf(&out, " Retry-After=%s", after)
	}
	for _, warning := range resp.Header.Values("Warning") {
		fmt.Fprintf(&out, " Warning=%q", warning)
	}
	var obj map[string]any
	if err := json.Unmarshal(body, &obj); err != nil {
		return out.String() + fmt.Sprintf(" %q", w.words(string(body)))
	}
	return out.String() + " " + w.describe(obj)
}

// describe says what an object is: a Status, a list, a Table, or one object.
func (w *matrixWorld) describe(obj map[string]any) string {
	kind := text(obj, "kind")
	items, isList := obj["items"].([]any)
	rows, isTable := obj["rows"].([]any)
	switch {
	case kind == "Status":
		return w.status(obj)
	case isTable || kind == "Table":
		var columns, cells []string
		if list, ok := obj["columnDefinitions"].([]any); ok {
			for _, column := range list {
				columns = append(columns, text(column.(map[string]any), "name"))
			}
		}
		for _, row := range rows {
			r := row.(map[string]any)
			line := fmt.Sprint(r["cells"].([]any)[0])
			if o, ok := r["object"].(map[string]any); ok {
				line += ":" + text(o, "kind") + ":" + w.object(o)
			}
			cells = append(cells, line)
		}
		return fmt.Sprintf("Table columns=%d rows=[%s]%s", len(columns), strings.Join(cells, " "), w.listMeta(obj))
	case isList || strings.HasSuffix(kind, "List"):
		var names []string
		for _, item := range items {
			names = append(names, w.listed(kind, item.(map[string]any)))
		}
		list := "[" + strings.Join(names, " ") + "]"
		if !isList {
			list = "null"
		}
		if strings.HasPrefix(kind, "Partial") {
			list = kind + list
		}
		return list + w.listMeta(obj)
	case strings.HasPrefix(kind, "Partial"):
		return kind + " " + w.object(obj)
	default:
		return w.object(obj)
	}
}

// listed is an object of a list. One of a built-in kind has no kind of its own, but that of the metadata of objects; what is
// otherwise is said.
func (w *matrixWorld) listed(list string, obj map[string]any) string {
	want := ""
	switch {
	case strings.HasPrefix(list, "Partial"):
		want = "PartialObjectMetadata"
	case w.name == "things":
		want = "Thing"
	}
	got, _ := obj["kind"].(string)
	if _, ok := obj["apiVersion"]; got != want || ok != (want != "") {
		return fmt.Sprintf("(%v %q)%s", obj["apiVersion"], got, w.object(obj))
	}
	return w.object(obj)
}

// listMeta is the metadata of a list.
func (w *matrixWorld) listMeta(obj map[string]any) string {
	out := " at=" + w.moment(text(obj, "metadata", "resourceVersion"))
	if token := text(obj, "metadata", "continue"); token != "" {
		out += " continue=" + w.token(token)
	}
	if remaining, ok := lookup(obj, "metadata/remainingItemCount"); ok {
		out += fmt.Sprintf(" remaining=%v", remaining)
	}
	return out
}

// object is the name and the moment of an object.
func (w *matrixWorld) object(obj map[string]any) string {
	name, version := text(obj, "metadata", "name"), text(obj, "metadata", "resourceVersion")
	rv, err := strconv.ParseUint(version, 10, 64)
	switch known := w.objects[rv]; {
	case err == nil && known != "":
		version = known
	case err == nil && rv > w.latest:
		version = "NEW"
	case version != "":
		version = w.moment(version)
	}
	if name == "" {
		return version
	}
	return name + "@" + version
}

// moment is the name of the revision of a list or a bookmark.
func (w *matrixWorld) moment(version string) string {
	rv, err := strconv.ParseUint(version, 10, 64)
	switch {
	case err != nil:
		return strconv.Quote(version)
	case w.revisions[rv] != "":
		return w.revisions[rv]
	case rv >= w.latest && w.latest > 0:
		return "LATEST" // or later: what is written meanwhile, and to which collection, is nobody's business
	case w.objects[rv] != "":
		return w.objects[rv]
	}
	var before uint64
	for have := range w.objects {
		if have < rv && have > before {
			before = have
		}
	}
	if before == 0 {
		return "#"
	}
	return ">" + w.objects[before]
}

// token says where and when a list goes on. Where the slash between prefix and key belongs is not told: both forms
// are understood by all.
func (w *matrixWorld) token(token string) string {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil {
		return "?"
	}
	var c struct {
		V     string `json:"v"`
		RV    int64  `json:"rv"`
		Start string `json:"start"`
	}
	if err := json.Unmarshal(raw, &c); err != nil {
		return "?"
	}
	at := strconv.FormatInt(c.RV, 10)
	if c.RV > 0 {
		at = w.moment(at)
	}
	return fmt.Sprintf("(%s %q %s)", c.V, strings.TrimPrefix(c.Start, "/"), at)
}

// status is an error.
func (w *matrixWorld) status(obj map[string]any) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s %v %s %q", text(obj, "status"), obj["code"], text(obj, "reason"), w.words(text(obj, "message")))
	if token := text(obj, "metadata", "continue"); token != "" {
		out.WriteString(" continue=" + w.token(token))
	}
	details, _ := obj["details"].(map[string]any)
	for _, member := range []string{"group", "kind", "name", "retryAfterSeconds"} {
		if v, ok := details[member]; ok {
			fmt.Fprintf(&out, " %s=%v", member, v)
		}
	}
	if _, ok := details["uid"]; ok {
		out.WriteString(" uid")
	}
	causes, _ := details["causes"].([]any)
	for _, c := range causes {
		cause := c.(map[string]any)
		fmt.Fprintf(&out, " {%s %s %q}", text(cause, "reason"), text(cause, "field"), w.words(text(cause, "message")))
	}
	return out.String()
}

var (
	numbers = regexp.MustCompile(`\b[0-9]{2,}\b`)
	uids    = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	// causes of a parser are its own.
	base64Error = regexp.MustCompile(`illegal base64 data at input byte \d+`)
	times       = regexp.MustCompile(`\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`)
	current     = regexp.MustCompile(`current: \d+`)
)

// words replaces what differs from run to run.
func (w *matrixWorld) words(message string) string {
	message = uids.ReplaceAllString(message, "UID")
	message = times.ReplaceAllString(message, "TIME")
	message = base64Error.ReplaceAllString(message, "illegal base64 data")
	message = current.ReplaceAllString(message, "current: #")
	for _, name := range []string{"PAGE", "OLDPAGE"} {
		if token := w.vars[name]; token != "" {
			message = strings.ReplaceAll(message, token, name)
		}
	}
	return numbers.ReplaceAllStringFunc(message, func(number string) string {
		if number == future {
			return "FUTURE"
		}
		rv, err := strconv.ParseUint(number, 10, 64)
		switch {
		case err != nil:
			return number
		case w.revisions[rv] != "":
			return w.revisions[rv]
		case w.objects[rv] != "":
			return w.objects[rv]
		}
		return "#"
	})
}

// ask sends a request and returns the whole answer; of a stream, the events up to the first after a mark.
// opened is called when the header of a response has come.
func (w *matrixWorld) ask(ctx context.Context, r matrixRequest, opened func()) string {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	r.target = w.expand(r.target)
	resp, err := w.server.send(ctx, r)
	opened()
	if err != nil {
		return "no answer: " + err.Error()
	}
	defer resp.Body.Close()
	if !r.watch || resp.StatusCode != http.StatusOK {
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			return "no answer: " + err.Error()
		}
		return w.answer(resp, body)
	}
	return "200 " + w.events(resp.Body)
}

// expand replaces variables in the query, longer names first.
func (w *matrixWorld) expand(target string) string {
	for _, name := range []string{"OLDPAGE", "PAGE", "OLD", "LATEST", "FUTURE", "N"} {
		target = strings.ReplaceAll(target, "$"+name, w.vars[name])
	}
	return target
}

// events are those of a stream up to the mark, which is the first that is newer than the world, or to its end. Of bookmarks that follow each other
// and say the same the first is told: how often they come is not, and not one that does no more than to come before the mark did.
func (w *matrixWorld) events(body io.Reader) string {
	lines := bufio.NewScanner(body)
	lines.Buffer(nil, 1<<20)
	var out []string
	for lines.Scan() {
		var e struct {
			Type   string         `json:"type"`
			Object map[string]any `json:"object"`
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			return strings.Join(append(out, fmt.Sprintf("%q", lines.Text())), ", ")
		}
		said := e.Type + " " + w.describe(e.Object)
		if e.Type == "BOOKMARK" {
			said = "BOOKMARK " + w.bookmark(e.Object)
		}
		if len(out) == 0 || e.Type != "BOOKMARK" || !strings.HasPrefix(out[len(out)-1], said) {
			out = append(out, said)
		}
		rv, _ := strconv.ParseUint(text(e.Object, "metadata", "resourceVersion"), 10, 64)
		if rv > w.latest && e.Type != "BOOKMARK" {
			if mere := len(out) - 2; mere >= 0 && strings.HasPrefix(out[mere], "BOOKMARK ") && strings.HasSuffix(out[mere], " at=LATEST") {
				out = slices.Delete(out, mere, mere+1)
			}
			return strings.Join(append(out, "…"), ", ")
		}
	}
	return strings.Join(append(out, "end"), ", ")
}

// bookmark says what is beside the resourceVersion.
func (w *matrixWorld) bookmark(obj map[string]any) string {
	out, inner := text(obj, "kind"), obj
	if out == "Table" {
		rows, _ := obj["rows"].([]any)
		if len(rows) == 1 {
			if o, ok := rows[0].(map[string]any)["object"].(map[string]any); ok {
				out += ":" + text(o, "kind")
				inner = o
			}
		}
	}
	out += " at=" + w.moment(text(inner, "metadata", "resourceVersion"))
	annotations, _ := lookup(inner, "metadata/annotations")
	if m, ok := annotations.(map[string]any); ok {
		for name, v := range m {
			out += fmt.Sprintf(" %s=%v", name, v)
		}
	}
	return out
}
