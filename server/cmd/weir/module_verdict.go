package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
)

// Verdicts of a hook.
const (
	verdictPass    = "pass"
	verdictRefused = "refused"
	verdictFailed  = "failed"
)

// verdict is what weir module run prints.
type verdict struct {
	Module  string `json:"module"`
	Version string `json:"version,omitempty"`
	Digest  string `json:"digest"`
	Hook    string `json:"hook"`
	// Verdict is pass, refused or failed.
	Verdict  string            `json:"verdict"`
	Errors   []abi.FieldError  `json:"errors,omitempty"`
	Denied   *abi.Denial       `json:"denied,omitempty"`
	Warnings []string          `json:"warnings,omitempty"`
	Audit    map[string]string `json:"audit,omitempty"`
	// Object as the hook changed it; absent if it did not.
	Object *document.Document `json:"object,omitempty"`
	// Failure is why there is no verdict.
	Failure      *failure `json:"failure,omitempty"`
	Fuel         uint64   `json:"fuel"`
	FuelLimit    uint64   `json:"fuelLimit"`
	Milliseconds float64  `json:"milliseconds"`

	input *document.Document
}

// failure is an error of the host.
type failure struct {
	Class   string `json:"class,omitempty"`
	Message string `json:"message"`
}

// set takes what a call gave.
func (v *verdict) set(res *host.Result, err error) {
	var e *host.Error
	switch {
	case errors.As(err, &e):
		v.Verdict, v.Fuel = verdictFailed, e.Fuel
		v.Failure = &failure{Class: e.Class.String(), Message: e.Message}
		return
	case err != nil:
		v.Verdict, v.Failure = verdictFailed, &failure{Message: err.Error()}
		return
	}
	v.Verdict = verdictPass
	if len(res.Errors) > 0 || res.Denied != nil {
		v.Verdict = verdictRefused
	}
	v.Errors, v.Denied, v.Warnings, v.Audit = res.Errors, res.Denied, res.Warnings, res.Audit
	v.Object, v.Fuel = res.Object, res.Fuel
}

func (v *verdict) write(w io.Writer, format outputFormat) error {
	if format == outputJSON {
		return writeJSON(w, v)
	}
	t := table{w}
	t.row("module", v.Module, v.Version)
	t.row("hook", v.Hook)
	t.row("verdict", v.Verdict)
	if v.Failure != nil {
		t.row("failure", strings.TrimPrefix(v.Failure.Class+": "+v.Failure.Message, ": "))
	}
	if d := v.Denied; d != nil {
		t.row("denied", fmt.Sprintf("%d %s", d.Code, d.Message))
	}
	for _, e := range v.Errors {
		t.row("error", errorText(e))
	}
	for _, text := range v.Warnings {
		t.row("warning", text)
	}
	for _, key := range slices.Sorted(maps.Keys(v.Audit)) {
		t.row("audit", key+"="+v.Audit[key])
	}
	t.row("fuel", fmt.Sprintf("%s of %s", grouped(v.Fuel), grouped(v.FuelLimit)))
	t.row("time", fmt.Sprintf("%.3f ms", v.Milliseconds))
	if v.Object == nil {
		return nil
	}
	was, err := yamlOf(v.input)
	if err != nil {
		return err
	}
	is, err := yamlOf(v.Object)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(w, "\n%s", lineDiff(was, is))
	return err
}

// errorTypeText is how the API server calls the types of field errors.
func errorTypeText(errorType string) string {
	switch errorType {
	case abi.ErrorTypeNotFound:
		return "Not found"
	case abi.ErrorTypeRequired:
		return "Required value"
	case abi.ErrorTypeDuplicate:
		return "Duplicate value"
	case abi.ErrorTypeInvalid, abi.ErrorTypeTypeInvalid:
		return "Invalid value"
	case abi.ErrorTypeNotSupported:
		return "Unsupported value"
	case abi.ErrorTypeForbidden:
		return "Forbidden"
	case abi.ErrorTypeTooLong:
		return "Too long"
	case abi.ErrorTypeTooMany:
		return "Too many"
	case abi.ErrorTypeInternal:
		return "Internal error"
	}
	return errorType
}

func errorText(e abi.FieldError) string {
	text := e.Field + ": " + errorTypeText(e.Type)
	if len(e.Value) > 0 {
		text += ": " + string(e.Value)
	}
	if e.Detail != "" {
		text += ": " + e.Detail
	}
	return text
}

func yamlOf(d *document.Document) ([]string, error) {
	if d == nil {
		return nil, nil
	}
	text, err := yaml.JSONToYAML(d.Bytes())
	if err != nil {
		return nil, err
	}
	return strings.Split(strings.TrimSuffix(string(text), "\n"), "\n"), nil
}

// lineDiff shows all lines of the new text, with + those that are new and with
// - those that are gone. Of very long texts it shows the new one.
func lineDiff(was, is []string) string {
	const most = 1 << 22 // pairs of lines that are compared
	if len(was)*len(is) > most {
		return "  " + strings.Join(is, "\n  ") + "\n"
	}
	common := make([][]int, len(was)+1) // of was[i:] and is[j:]
	for i := range common {
		common[i] = make([]int, len(is)+1)
	}
	for i := len(was) - 1; i >= 0; i-- {
		for j := len(is) - 1; j >= 0; j-- {
			if was[i] == is[j] {
				common[i][j] = common[i+1][j+1] + 1
			} else {
				common[i][j] = max(common[i+1][j], common[i][j+1])
			}
		}
	}
	var b strings.Builder
	i, j := 0, 0
	for i < len(was) || j < len(is) {
		switch {
		case i < len(was) && j < len(is) && was[i] == is[j]:
			b.WriteString("  " + is[j] + "\n")
			i, j = i+1, j+1
		case j == len(is) || i < len(was) && common[i+1][j] >= common[i][j+1]:
			b.WriteString("- " + was[i] + "\n")
			i++
		default:
			b.WriteString("+ " + is[j] + "\n")
			j++
		}
	}
	return b.String()
}
