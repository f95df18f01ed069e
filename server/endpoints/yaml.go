package endpoints

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"sort"
	"strconv"

	yamlv2 "go.yaml.in/yaml/v2"
)

// maxYAMLDuplicates is the most duplicates that are reported of one text, as of JSON.
const maxYAMLDuplicates = 100

// yamlToJSON converts YAML 1.1, as upstream reads it, to JSON. An alias repeats
// what it stands for, so that a small text can mean a huge value: the output is
// bounded to limit bytes and the conversion stops there (CVE-2019-11253).
//
// duplicates are the errors of keys that are set twice, in upstream's words; the
// last one counts.
func yamlToJSON(raw []byte, limit int) (out []byte, duplicates []string, err error) {
	var value any
	if err := yamlv2.UnmarshalStrict(raw, &value); err != nil {
		var typeErr *yamlv2.TypeError
		if !errors.As(err, &typeErr) {
			return nil, nil, err
		}
		duplicates = typeErr.Errors[:min(len(typeErr.Errors), maxYAMLDuplicates)]
		value = nil
		if err := yamlv2.Unmarshal(raw, &value); err != nil {
			return nil, nil, err
		}
	}
	w := yamlWriter{limit: limit}
	if err := w.write(value); err != nil {
		return nil, nil, err
	}
	return w.out, duplicates, nil
}

// errYAMLTooLarge: aliases make the value larger than any body may be.
var errYAMLTooLarge = errors.New("yaml: document is too large once its aliases are resolved")

type yamlWriter struct {
	out   []byte
	limit int
}

func (w *yamlWriter) write(value any) error {
	if len(w.out) > w.limit {
		return errYAMLTooLarge
	}
	switch v := value.(type) {
	case nil:
		w.out = append(w.out, "null"...)
	case bool:
		w.out = strconv.AppendBool(w.out, v)
	case int:
		w.out = strconv.AppendInt(w.out, int64(v), 10)
	case int64:
		w.out = strconv.AppendInt(w.out, v, 10)
	case uint64:
		w.out = strconv.AppendUint(w.out, v, 10)
	case float64:
		if math.IsNaN(v) || math.IsInf(v, 0) {
			return fmt.Errorf("json: unsupported value: %v", v)
		}
		text, err := json.Marshal(v)
		if err != nil {
			return err
		}
		w.out = append(w.out, text...)
	case string:
		return w.writeString(v)
	case []any:
		w.out = append(w.out, '[')
		for i, element := range v {
			if i > 0 {
				w.out = append(w.out, ',')
			}
			if err := w.write(element); err != nil {
				return err
			}
		}
		w.out = append(w.out, ']')
	case map[any]any:
		return w.writeMap(v)
	default:
		return fmt.Errorf("yaml: unsupported value of type %T", value)
	}
	return nil
}

func (w *yamlWriter) writeString(text string) error {
	if len(w.out)+len(text) > w.limit {
		return errYAMLTooLarge
	}
	quoted, err := json.Marshal(text)
	if err != nil {
		return err
	}
	w.out = append(w.out, quoted...)
	return nil
}

func (w *yamlWriter) writeMap(m map[any]any) error {
	names := make([]string, 0, len(m))
	byName := make(map[string]any, len(m))
	for key, element := range m {
		name, err := yamlKey(key)
		if err != nil {
			return err
		}
		if _, ok := byName[name]; ok {
			return fmt.Errorf("yaml: several keys read %q as JSON", name)
		}
		byName[name] = element
		names = append(names, name)
	}
	sort.Strings(names)
	w.out = append(w.out, '{')
	for i, name := range names {
		if i > 0 {
			w.out = append(w.out, ',')
		}
		if err := w.writeString(name); err != nil {
			return err
		}
		w.out = append(w.out, ':')
		if err := w.write(byName[name]); err != nil {
			return err
		}
	}
	w.out = append(w.out, '}')
	return nil
}

// yamlKey spells a key as sigs.k8s.io/yaml does.
func yamlKey(key any) (string, error) {
	switch k := key.(type) {
	case string:
		return k, nil
	case int:
		return strconv.Itoa(k), nil
	case int64:
		return strconv.FormatInt(k, 10), nil
	case uint64:
		return strconv.FormatUint(k, 10), nil
	case float64:
		text := strconv.FormatFloat(k, 'g', -1, 32)
		switch text {
		case "+Inf":
			text = ".inf"
		case "-Inf":
			text = "-.inf"
		case "NaN":
			text = ".nan"
		}
		return text, nil
	case bool:
		return strconv.FormatBool(k), nil
	default:
		return "", fmt.Errorf("yaml: unsupported map key of type %T", key)
	}
}
