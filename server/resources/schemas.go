package resources

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/kube-openapi/pkg/validation/spec"
)

// SchemaRef is what comes before a model name in the $refs of schemas: they
// refer to each other as in an OpenAPI v3 document.
const SchemaRef = "#/components/schemas/"

// metaModels are the schemas that the operations of every resource use.
var metaModels = []string{
	"io.k8s.apimachinery.pkg.apis.meta.v1.APIResourceList",
	"io.k8s.apimachinery.pkg.apis.meta.v1.DeleteOptions",
	"io.k8s.apimachinery.pkg.apis.meta.v1.Patch",
	"io.k8s.apimachinery.pkg.apis.meta.v1.Status",
	"io.k8s.apimachinery.pkg.apis.meta.v1.WatchEvent",
}

const scaleModel = "io.k8s.api.autoscaling.v1.Scale"

// ErrNoSchema is wrapped by errors about a model name that no source has.
var ErrNoSchema = errors.New("no such schema")

// schemas finds schemas by model name, reading files when first needed.
type schemas struct {
	sources []fs.FS

	mu     sync.Mutex
	files  map[string]map[string]json.RawMessage // guarded by mu; by model package, then model name
	parsed map[string]*spec.Schema               // guarded by mu
}

// Schema gives the OpenAPI v3 schema of a model name such as
// io.k8s.api.apps.v1.Deployment, as upstream publishes it: its $refs start
// with [SchemaRef], and defaults of the overlays are not in it.
func (s *Set) Schema(name string) (*spec.Schema, error) { return s.schemas.get(name) }

// SchemaClosure gives the named schemas and all that they refer to.
func (s *Set) SchemaClosure(names ...string) (map[string]*spec.Schema, error) {
	return s.schemas.closure(names)
}

// GroupVersionSchemas gives the schemas that an OpenAPI document of a group
// version needs: its served kinds, their lists, what the operations use, and
// all that these refer to.
func (s *Set) GroupVersionSchemas(gv schema.GroupVersion) (map[string]*spec.Schema, error) {
	names := slices.Clone(metaModels)
	for _, d := range s.definitions {
		v, ok := d.Version(gv.Version)
		if d.Group != gv.Group || !ok || !v.Served || v.SchemaName == "" {
			continue
		}
		names = append(names, v.SchemaName)
		if !v.Virtual {
			names = append(names, v.ListSchemaName(d.ListKind))
		}
		if v.Scale != nil {
			names = append(names, scaleModel)
		}
	}
	return s.schemas.closure(names)
}

func (s *schemas) get(name string) (*spec.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if schema, ok := s.parsed[name]; ok {
		return schema, nil
	}
	raw, err := s.rawLocked(name)
	if err != nil {
		return nil, err
	}
	schema := &spec.Schema{}
	if err := schema.UnmarshalJSON(raw); err != nil {
		return nil, fmt.Errorf("schema %s: %w", name, err)
	}
	if s.parsed == nil {
		s.parsed = map[string]*spec.Schema{}
	}
	s.parsed[name] = schema
	return schema, nil
}

func (s *schemas) closure(names []string) (map[string]*spec.Schema, error) {
	found := map[string]*spec.Schema{}
	queue := slices.Clone(names)
	for len(queue) > 0 {
		name := queue[len(queue)-1]
		queue = queue[:len(queue)-1]
		if _, ok := found[name]; ok {
			continue
		}
		schema, err := s.get(name)
		if err != nil {
			return nil, err
		}
		found[name] = schema
		queue = appendRefs(queue, schema)
	}
	return found, nil
}

// rawLocked finds a definition's bytes in the file of its package.
func (s *schemas) rawLocked(name string) (json.RawMessage, error) {
	pkg, err := modelPackage(name)
	if err != nil {
		return nil, err
	}
	file, ok := s.files[pkg]
	if !ok {
		file = map[string]json.RawMessage{}
		for _, source := range s.sources {
			data, err := fs.ReadFile(source, "schemas/"+pkg+".json")
			if errors.Is(err, fs.ErrNotExist) {
				continue
			}
			if err != nil {
				return nil, err
			}
			index, err := indexSchemas(data)
			if err != nil {
				return nil, fmt.Errorf("schemas %s: %w", pkg, err)
			}
			maps.Copy(file, index)
		}
		if s.files == nil {
			s.files = map[string]map[string]json.RawMessage{}
		}
		s.files[pkg] = file
	}
	raw, ok := file[name]
	if !ok {
		return nil, fmt.Errorf("schema %s: %w", name, ErrNoSchema)
	}
	return raw, nil
}

// modelPackage is a model name without its last element.
func modelPackage(name string) (string, error) {
	i := strings.LastIndexByte(name, '.')
	if i <= 0 || strings.ContainsAny(name, "/\\") {
		return "", fmt.Errorf("schema %q: not a model name", name)
	}
	return name[:i], nil
}

// indexSchemas finds the definitions of a schema file. The generator writes
// one a line, so that the file need not be parsed; any other JSON object of
// schemas is understood too.
func indexSchemas(data []byte) (map[string]json.RawMessage, error) {
	index := map[string]json.RawMessage{}
	if bytes.HasPrefix(data, []byte("{\n\"")) {
		lines := data[2:]
		for len(lines) > 0 {
			line, rest, _ := bytes.Cut(lines, []byte{'\n'})
			lines = rest
			if string(line) == "}" && len(rest) == 0 {
				return index, nil
			}
			name, body, ok := bytes.Cut(bytes.TrimSuffix(line, []byte{','}), []byte(`":{`))
			if !ok || len(name) < 2 || name[0] != '"' || !bytes.HasSuffix(body, []byte{'}'}) {
				break
			}
			index[string(name[1:])] = json.RawMessage(line[len(name)+2 : len(name)+3+len(body)])
		}
	}
	index = map[string]json.RawMessage{}
	if err := json.Unmarshal(data, &index); err != nil {
		return nil, err
	}
	return index, nil
}

// appendRefs appends the model names that a schema refers to.
func appendRefs(names []string, s *spec.Schema) []string {
	if s == nil {
		return names
	}
	if name, ok := refName(s); ok {
		names = append(names, name)
	}
	for i := range s.AllOf {
		names = appendRefs(names, &s.AllOf[i])
	}
	for _, prop := range s.Properties {
		names = appendRefs(names, &prop)
	}
	if s.Items != nil {
		names = appendRefs(names, s.Items.Schema)
	}
	if s.AdditionalProperties != nil {
		names = appendRefs(names, s.AdditionalProperties.Schema)
	}
	return names
}

// refName is the model name of a $ref.
func refName(s *spec.Schema) (string, bool) {
	return strings.CutPrefix(s.Ref.String(), SchemaRef)
}
