package cases

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strconv"
	"strings"

	"weir.dev/weir/abi"
)

// decode reads a struct, whose members are those that there may be.
func decode(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	err := d.Decode(into)
	if err == nil {
		return nil
	}
	var kind *json.UnmarshalTypeError
	if errors.As(err, &kind) {
		if kind.Field == "" {
			return fmt.Errorf("it is %s, and has to be an object with the members %s", article(kind.Value), members(into))
		}
		return fmt.Errorf("%s must not be %s", kind.Field, article(kind.Value))
	}
	if name, ok := strings.CutPrefix(err.Error(), "json: unknown field "); ok {
		return fmt.Errorf("unknown field %s; there are %s%s", name, members(into), inExpect(into))
	}
	return err
}

// article gives what encoding/json calls a value its article.
func article(value string) string {
	if strings.HasPrefix(value, "a") || strings.HasPrefix(value, "o") {
		return "an " + value
	}
	return "a " + value
}

// members are the names of the members of a struct.
func members(of any) string {
	var names []string
	for t, i := reflect.TypeOf(of).Elem(), 0; i < t.NumField(); i++ {
		name, _, _ := strings.Cut(t.Field(i).Tag.Get("json"), ",")
		names = append(names, name)
	}
	return strings.Join(names, ", ")
}

// inExpect are the members of what a case expects.
func inExpect(of any) string {
	e, ok := of.(*entry)
	if !ok {
		return ""
	}
	return "; and in expect " + members(&e.Expect)
}

// nameOf is the name of a case, or its number.
func nameOf(raw json.RawMessage, i int) string {
	var named struct {
		Name string `json:"name"`
	}
	if json.Unmarshal(raw, &named) != nil || named.Name == "" {
		return strconv.Itoa(i)
	}
	return named.Name
}

// hooks are the names of those that there are.
func hooks() string {
	var all []string
	for _, op := range abi.Ops() {
		all = append(all, op.String())
	}
	return strings.Join(all, ", ")
}
