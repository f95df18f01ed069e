package endpoints

import (
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	tablevalidation "k8s.io/apimachinery/pkg/apis/meta/v1beta1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/duration"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// table encodes objects of the version served as rows. One is made for a
// response; a watch uses its one for all events.
type table struct {
	gv      schema.GroupVersion
	columns []rest.Column
	include metav1.IncludeObjectPolicy
	now     func() time.Time
	// noHeaders leaves out the column definitions.
	noHeaders bool
}

// newTable reads what a Table is to include.
func (s *server) newTable(req *http.Request, sc *scope, gv schema.GroupVersion) (*table, error) {
	opts := metav1.TableOptions{IncludeObject: metav1.IncludeObjectPolicy(req.URL.Query().Get("includeObject"))}
	if errs := tablevalidation.ValidateTableOptions(&opts); len(errs) > 0 {
		return nil, apierrors.NewBadRequest(fmt.Sprintf("Unable to convert to Table as requested: %v", errs[0]))
	}
	t := &table{gv: gv, columns: sc.version.Columns, include: opts.IncludeObject, now: s.Now}
	if len(t.columns) == 0 || !sc.ownKind() {
		t.columns = defaultColumns()
	}
	return t, nil
}

// defaultColumns are those of a kind that has none of its own.
func defaultColumns() []rest.Column {
	doc := metav1.ObjectMeta{}.SwaggerDoc()
	return []rest.Column{
		{
			TableColumnDefinition: metav1.TableColumnDefinition{Name: "Name", Type: "string", Format: "name", Description: doc["name"]},
			Cell:                  func(obj map[string]any, _ time.Time) any { return metaString(obj, "name") },
		},
		{
			TableColumnDefinition: metav1.TableColumnDefinition{Name: "Age", Type: "date", Description: doc["creationTimestamp"]},
			Cell:                  ageCell,
		},
	}
}

// ageCell says how long an object has existed, as kubectl shows it.
func ageCell(obj map[string]any, now time.Time) any {
	created, err := time.Parse(time.RFC3339, metaString(obj, "creationTimestamp"))
	if err != nil {
		return "<unknown>"
	}
	return duration.HumanDuration(now.Sub(created))
}

func metaString(obj map[string]any, name string) string {
	meta, _ := obj["metadata"].(map[string]any)
	text, _ := meta[name].(string)
	return text
}

// encode gives the Table of a page.
func (t *table) encode(list *rest.List) ([][]byte, error) {
	meta, err := encodeListMeta(list)
	if err != nil {
		return nil, err
	}
	head := `{"kind":"Table","apiVersion":"` + t.gv.String() + `","metadata":` + meta + `,"columnDefinitions":`
	if t.noHeaders {
		head += "null"
	} else {
		definitions := make([]metav1.TableColumnDefinition, len(t.columns))
		for i, column := range t.columns {
			definitions[i] = column.TableColumnDefinition
		}
		raw, err := json.Marshal(definitions)
		if err != nil {
			return nil, err
		}
		head += string(raw)
	}
	chunks := make([][]byte, 0, 5*len(list.Items)+2)
	chunks = append(chunks, []byte(head+`,"rows":[`))
	now := t.now()
	for i, obj := range list.Items {
		if chunks, err = t.row(chunks, obj, now, i > 0); err != nil {
			return nil, err
		}
	}
	return append(chunks, []byte("]}")), nil
}

// row appends one row.
func (t *table) row(chunks [][]byte, obj *document.Document, now time.Time, comma bool) ([][]byte, error) {
	content, err := obj.Map()
	if err != nil {
		return nil, err
	}
	cells := make([]any, len(t.columns))
	for i, column := range t.columns {
		cells[i] = column.Cell(content, now)
	}
	raw, err := json.Marshal(cells)
	if err != nil {
		return nil, fmt.Errorf("cells of %s: %w", metaString(content, "name"), err)
	}
	start := `{"cells":`
	if comma {
		start = `,{"cells":`
	}
	chunks = append(chunks, []byte(start+string(raw)+`,"object":`))
	switch t.include {
	case metav1.IncludeNone:
		chunks = append(chunks, []byte("null"))
	case metav1.IncludeObject:
		chunks = append(chunks, obj.Bytes())
	default:
		chunks = append(chunks, partial(obj, t.gv)...)
	}
	return append(chunks, []byte("}")), nil
}
