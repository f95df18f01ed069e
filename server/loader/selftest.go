package loader

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/abi/lookup"
	"weir.dev/weir/host"
	"weir.dev/weir/server/apis/v1alpha1"
)

// runTests runs spec.tests of a Module against its newest artefact. The error names every test that fails.
func (l *Loader) runTests(ctx context.Context, object *v1alpha1.Module, loaded *loadedModule, data []byte) error {
	var failed []string
	for i := range object.Spec.Tests {
		test := &object.Spec.Tests[i]
		if err := l.runTest(ctx, test, object.Name, loaded, data); err != nil {
			failed = append(failed, fmt.Sprintf("test %q: %v", test.Name, err))
		}
	}
	if len(failed) > 0 {
		return fmt.Errorf("%d of %d tests failed: %s", len(failed), len(object.Spec.Tests), strings.Join(failed, "; "))
	}
	return nil
}

func (l *Loader) runTest(ctx context.Context, test *v1alpha1.ModuleTest, name string, loaded *loadedModule, data []byte) error {
	op, ok := abi.ParseOp(test.Hook)
	if !ok {
		return fmt.Errorf("hook %q does not exist", test.Hook)
	}
	if !loaded.base.Handles(op) {
		return fmt.Errorf("the module does not implement hook %q; it has %s", test.Hook, strings.Join(loaded.hooks, ", "))
	}
	guest := interface {
		Call(context.Context, *host.Call) (*host.Result, error)
	}(loaded.base)
	if len(test.Settings.Raw) > 0 {
		config := l.moduleConfig(name, loaded.limits, loaded.capabilities, loaded.grants)
		config.Settings = test.Settings.Raw
		m, err := l.cfg.Host.Load(ctx, data, config)
		if err != nil {
			return err
		}
		defer func() {
			if err := m.Close(ctx); err != nil {
				l.cfg.Logger.WarnContext(ctx, "module of a test cannot be closed", "module", name, "error", err)
			}
		}()
		guest = m
	}
	objects, err := testObjects(test)
	if err != nil {
		return fmt.Errorf("objects: %w", err)
	}
	call := &host.Call{Op: op, Lookuper: objects, Authorizer: lookup.Allowed(nil)}
	if call.Object, err = parseOptional(test.Object.Raw); err != nil {
		return fmt.Errorf("object: %w", err)
	}
	if call.OldObject, err = parseOptional(test.OldObject.Raw); err != nil {
		return fmt.Errorf("oldObject: %w", err)
	}
	if call.Meta, err = testMeta(op, call); err != nil {
		return err
	}
	result, err := guest.Call(ctx, call)
	if err != nil {
		return err
	}
	return judge(test, call, result)
}

// testMeta is the request of a test, the same each time: its clock stands at the start of 1970.
func testMeta(op abi.Op, call *host.Call) (*document.Document, error) {
	meta := abi.Meta{UID: "test", Time: host.FormatTime(time.Unix(0, 0))}
	about := call.Object
	switch op {
	case abi.OpPrepareForCreate, abi.OpValidateCreate, abi.OpWarningsOnCreate:
		meta.Operation = abi.OperationCreate
	case abi.OpPrepareForUpdate, abi.OpValidateUpdate, abi.OpWarningsOnUpdate:
		meta.Operation = abi.OperationUpdate
	case abi.OpStatusPrepare, abi.OpStatusValidate:
		meta.Operation, meta.Subresource = abi.OperationUpdate, "status"
	case abi.OpValidateDelete:
		meta.Operation = abi.OperationDelete
		if about == nil {
			about = call.OldObject
		}
	}
	if about != nil {
		gv, err := schema.ParseGroupVersion(about.Get("apiVersion").String())
		if err != nil {
			return nil, fmt.Errorf("object: %w", err)
		}
		meta.Group, meta.Version, meta.Kind = gv.Group, gv.Version, about.Get("kind").String()
		meta.Namespace, meta.Name = about.Get("metadata", "namespace").String(), about.Get("metadata", "name").String()
	}
	return host.NewMeta(meta)
}

// judge compares what a hook gave with what a test expects.
func judge(test *v1alpha1.ModuleTest, call *host.Call, result *host.Result) error {
	var fields []string
	for _, e := range result.Errors {
		fields = append(fields, e.Field)
	}
	if result.Denied != nil {
		fields = append(fields, "")
	}
	for _, want := range test.ExpectErrors {
		if !slices.Contains(fields, want) {
			return fmt.Errorf("no error of field %q; errors of %q", want, fields)
		}
	}
	if len(test.ExpectErrors) == 0 && len(fields) > 0 {
		return fmt.Errorf("refused: %s", describeRefusal(result))
	}
	if len(test.ExpectObject.Raw) == 0 {
		return nil
	}
	want, err := document.Parse(test.ExpectObject.Raw)
	if err != nil {
		return fmt.Errorf("expectObject: %w", err)
	}
	got := result.Object
	if got == nil {
		got = call.Object
	}
	if !want.Equal(got) {
		return fmt.Errorf("the object is %s, want %s", got.Bytes(), want.Bytes())
	}
	return nil
}

func describeRefusal(result *host.Result) string {
	if result.Denied != nil {
		return result.Denied.Message
	}
	texts := make([]string, len(result.Errors))
	for i, e := range result.Errors {
		texts[i] = fmt.Sprintf("%s: %s", e.Field, e.Detail)
	}
	return strings.Join(texts, "; ")
}

func parseOptional(raw json.RawMessage) (*document.Document, error) {
	if len(raw) == 0 {
		return nil, nil
	}
	return document.Parse(raw)
}
