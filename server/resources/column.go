package resources

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/client-go/util/jsonpath"
)

// Column is a column of the table form of a resource. Its cells come from
// either JSONPath, with the meaning it has in a CustomResourceDefinition's
// additionalPrinterColumns, or Template, a text with expressions in braces. A
// Column must be compiled before Cell is called.
//
// # Templates
//
//	template    = { text | "{" expression "}" }
//	expression  = alternative { "??" alternative }
//	alternative = source { "|" function { argument } }
//	source      = JSONPath with a leading dot | "." | 'text'
//	argument    = 'text' | number | JSONPath
//
// An alternative gives a list of values: what the path selects, without nulls
// and empty strings, then changed by its functions from left to right. An
// expression is the first alternative with a value, its values joined by
// commas, or nothing. A quote inside 'text' is doubled; a literal brace is
// '{' in an expression. Functions:
//
//	and .path       the values, and those at path in the object
//	count           the number of values
//	size            the number of members of all lists and maps together
//	sum             the sum of integers
//	first           the first value
//	limit n         at most n values, then "+ k more..." joined by a space
//	uniq            each value once
//	sort            in order of their text
//	lower           in lower case
//	join 'sep'      one value, joined
//	map 'a' 'b' …   a becomes b, …; a last odd argument replaces all others
//	then 'text'     text if there is any value
//	prefix 'p'      those that begin with p, without it
//	keys            the sorted keys of maps
//	pairs           the sorted key=value pairs of maps, as one value
//	selector        a LabelSelector, or a map of labels, in kubectl's form
//	each 'template' each value as the template gives it, with the value for
//	                object
//	age             timestamps as the time since then
//	until .path     timestamps as the time from then to the timestamp at path
//	                in the object, or to now without one
//	before 'sep'    what comes before the first sep, of those that have one
type Column struct {
	Name string `json:"name"`
	// Type is integer, number, boolean, string or date.
	Type string `json:"type"`
	// Format is an OpenAPI format; "name" marks the object's name.
	Format      string `json:"format,omitempty"`
	Description string `json:"description,omitempty"`
	// Priority 0 is always shown, higher ones when there is room (-o wide).
	Priority int32  `json:"priority,omitempty"`
	JSONPath string `json:"jsonPath,omitempty"`
	Template string `json:"template,omitempty"`

	path     *jsonPath
	template *template
}

// TableColumns are the columns of the version's table: a Name column, unless
// PrinterColumns has one of format name, then PrinterColumns. They must have
// been compiled.
func (v *Version) TableColumns() []Column {
	if slices.ContainsFunc(v.PrinterColumns, func(c Column) bool { return c.Format == "name" }) {
		return v.PrinterColumns
	}
	columns := make([]Column, 0, 1+len(v.PrinterColumns))
	columns = append(columns, nameColumn())
	return append(columns, v.PrinterColumns...)
}

func nameColumn() Column {
	return Column{
		Name: "Name", Type: "string", Format: "name",
		Description: metav1.ObjectMeta{}.SwaggerDoc()["name"],
		JSONPath:    ".metadata.name",
		path:        &jsonPath{steps: []step{{field: "metadata"}, {field: "name"}}},
	}
}

// Compile checks the column and prepares it for Cell. It must not run at the
// same time as Cell.
func (c *Column) Compile() error {
	switch c.Type {
	case "integer", "number", "boolean", "string", "date":
	default:
		return fmt.Errorf("column %s: type %q is unknown", c.Name, c.Type)
	}
	var err error
	switch {
	case c.JSONPath != "" && c.Template != "":
		err = errors.New("jsonPath and template exclude each other")
	case c.JSONPath != "":
		c.path, err = parsePath(c.JSONPath)
	case c.Template != "":
		c.template, err = parseTemplate(c.Template)
	default:
		err = errors.New("jsonPath or template is required")
	}
	if err != nil {
		return fmt.Errorf("column %s: %w", c.Name, err)
	}
	return nil
}

// Cell is the column's value for an object decoded from JSON: an int64,
// float64, bool, string or nil. Dates are ages at the time now. Several
// goroutines may call it.
func (c *Column) Cell(obj map[string]any, now time.Time) any {
	if c.template != nil {
		return c.typed(c.template.render(obj, now))
	}
	if c.path == nil {
		return nil
	}
	value, ok := c.path.first(obj)
	if !ok {
		return nil
	}
	return cell(c.Type, value, now)
}

// typed converts a rendered template to the column's type; text that has not
// that type stays text, as "<none>" in a column of numbers.
func (c *Column) typed(text string) any {
	switch c.Type {
	case "integer":
		if n, err := strconv.ParseInt(text, 10, 64); err == nil {
			return n
		}
	case "number":
		if f, err := strconv.ParseFloat(text, 64); err == nil {
			return f
		}
	case "boolean":
		if b, err := strconv.ParseBool(text); err == nil {
			return b
		}
	}
	return text
}

// cell converts a value to a column type as upstream's table convertor for
// custom resources does: what does not fit is nil.
func cell(columnType string, value any, now time.Time) any {
	if columnType == "string" {
		return text(value)
	}
	switch columnType {
	case "integer":
		switch n := value.(type) {
		case int64:
			return n
		case float64:
			return int64(n)
		case json.Number:
			if i, err := n.Int64(); err == nil {
				return i
			}
		}
	case "number":
		switch n := value.(type) {
		case int64:
			return float64(n)
		case float64:
			return n
		case json.Number:
			if f, err := n.Float64(); err == nil {
				return f
			}
		}
	case "boolean":
		if b, ok := value.(bool); ok {
			return b
		}
	case "date":
		if s, ok := value.(string); ok {
			return age(s, now)
		}
	}
	return nil
}

// age is the human form of the time since an RFC 3339 timestamp.
func age(timestamp string, now time.Time) string {
	if timestamp == "" || timestamp == "null" {
		return "<unknown>"
	}
	t, err := time.Parse(time.RFC3339, timestamp)
	if err != nil {
		return "<invalid>"
	}
	return duration.HumanDuration(now.Sub(t))
}

// text is a JSON value as kubectl prints it: strings bare, the rest as JSON.
func text(value any) any {
	switch v := value.(type) {
	case string:
		return v
	case int64:
		return strconv.FormatInt(v, 10)
	case bool:
		return strconv.FormatBool(v)
	}
	var buf bytes.Buffer
	if err := jsonpath.New("").PrintResults(&buf, []reflect.Value{reflect.ValueOf(value)}); err != nil {
		return nil
	}
	return buf.String()
}
