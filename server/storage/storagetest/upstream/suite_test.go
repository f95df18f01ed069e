package upstream

import (
	"context"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	apiruntime "k8s.io/apimachinery/pkg/runtime"
	upstorage "k8s.io/apiserver/pkg/storage"
	uptesting "k8s.io/apiserver/pkg/storage/testing"
	upvalue "k8s.io/apiserver/pkg/storage/value"
)

// Reasons why a function does not apply to a storage.
const (
	injects    = "it makes stored values unreadable and at once wants to see that; the cache may have read them before and does not read them again (upstream's cacher does not run it either)"
	anyPage    = "it wants a page of a list at resourceVersion 0, for which the cache ignores the limit, as upstream's cacher does, which does not run it either"
	onlyCacher = "regular bookmarks come from the cache; upstream's etcd3 does not run it either"
	gateOff    = "it is about a list with upstream's feature AllowUnsafeMalformedObjectDeletion off, which ends at the first object that cannot be read. The feature is on by default and here always: RunTestGetListWithErrorAggregation is about it"
	seats      = "its signal gives back the seat that a watch has in priority and fairness while it begins. Here a watch takes no seat among the requests in flight, so that there is nothing to give back and no signal"
)

// function is an exported function of upstream's suite and how it is called.
type function struct {
	run any
	// flags are its boolean arguments, for the cacher cacherFlags where set.
	flags, cacherFlags []bool
	// skip says why it is not called, skipEtcd and skipCacher for one of them.
	skip, skipEtcd, skipCacher string
	// progress: etcd's watches are asked for progress while it runs.
	progress bool
}

// name is that of the function itself, so that the table cannot be wrong about it.
func (f function) name() string {
	full := runtime.FuncForPC(reflect.ValueOf(f.run).Pointer()).Name()
	return full[strings.LastIndexByte(full, '.')+1:]
}

// skipped returns why the function is not called on a backend, "" where it is.
func (f function) skipped(b backend) string {
	switch {
	case f.skip != "":
		return f.skip
	case b == onCacher:
		return f.skipCacher
	}
	return f.skipEtcd
}

// alone reports whether the function must not run beside others: those for which a
// second is long, and those that set a feature gate of the whole process.
func (f function) alone() bool {
	switch f.name() {
	case "RunTestGet", "RunWatchSemantics", "RunWatchSemanticInitialEventsExtended", "RunWatchListMatchSingle":
		return true
	}
	return false
}

// functions are all that upstream exports.
func functions() []function {
	return []function{
		{run: uptesting.RunTestCreate},
		{run: uptesting.RunTestCreateWithTTL},
		{run: uptesting.RunTestCreateWithKeyExist},
		{run: uptesting.RunTestGet},
		{run: uptesting.RunTestUnconditionalDelete},
		{run: uptesting.RunTestConditionalDelete},
		{run: uptesting.RunTestDeleteWithSuggestion},
		{run: uptesting.RunTestDeleteWithSuggestionAndConflict},
		{run: uptesting.RunTestDeleteWithConflict},
		{run: uptesting.RunTestDeleteWithSuggestionOfDeletedObject},
		{run: uptesting.RunTestValidateDeletionWithSuggestion},
		{run: uptesting.RunTestValidateDeletionWithOnlySuggestionValid},
		{run: uptesting.RunTestPreconditionalDeleteWithSuggestion},
		{run: uptesting.RunTestPreconditionalDeleteWithOnlySuggestionPass},
		{run: uptesting.RunTestList, flags: []bool{false}, cacherFlags: []bool{true}},
		{run: uptesting.RunTestDeleteWithConflictAndMissingExpectedTransformOrDecodeError},
		{run: uptesting.RunTestDeleteExpectedTransformOrDecodeError},
		{run: uptesting.RunTestDeleteWithSuggestionAndMissingExpectedTransformOrDecodeError},
		{run: uptesting.RunTestConsistentList, flags: []bool{false, true, false}, cacherFlags: []bool{true, true, true}},
		{run: uptesting.RunTestGetListNonRecursive},
		{run: uptesting.RunTestGetListRecursivePrefix},
		{run: uptesting.RunTestGetListWithErrorAggregation, skipCacher: injects},
		{run: uptesting.RunTestGetListWithoutErrorAggregation, skip: gateOff},
		{run: uptesting.RunTestListContinuation},
		{run: uptesting.RunTestListPaginationRareObject},
		{run: uptesting.RunTestListContinuationWithFilter},
		{run: uptesting.RunTestListInconsistentContinuation, skipCacher: anyPage},
		{run: uptesting.RunTestListResourceVersionMatch},
		{run: uptesting.RunTestGuaranteedUpdate},
		{run: uptesting.RunTestGuaranteedUpdateWithTTL},
		{run: uptesting.RunTestGuaranteedUpdateChecksStoredData},
		{run: uptesting.RunTestGuaranteedUpdateWithConflict},
		{run: uptesting.RunTestGuaranteedUpdateWithSuggestionAndConflict},
		{run: uptesting.RunTestTransformationFailure, skipCacher: injects},
		// Objects are counted; their sizes are not estimated.
		{run: uptesting.RunTestStats, flags: []bool{false}},
		{run: uptesting.RunTestListPaging},
		{run: uptesting.RunTestNamespaceScopedList},
		// What it asks CompactRevision is answered by the fixture: no storage here has it. Its lists are the test.
		{run: uptesting.RunTestCompactRevision},
		// It is upstream's own check, which the adapter calls, that refuses keys here; of what the storages themselves
		// refuse, storagetest.RunTestKeys is the test.
		{run: uptesting.RunTestKeySchema},

		{run: uptesting.RunTestWatch},
		{run: uptesting.RunTestWatchFromZero},
		{run: uptesting.RunTestDeleteTriggerWatch},
		{run: uptesting.RunTestWatchFromNonZero},
		{run: uptesting.RunTestDelayedWatchDelivery},
		{run: uptesting.RunTestWatchError, skipCacher: injects},
		{run: uptesting.RunTestWatchWithUnsafeDelete, skipCacher: injects},
		{run: uptesting.RunTestWatchContextCancel},
		{run: uptesting.RunTestWatcherTimeout},
		{run: uptesting.RunTestWatchDeleteEventObjectHaveLatestRV},
		{run: uptesting.RunTestWatchInitializationSignal, skip: seats},
		{run: uptesting.RunOptionalTestProgressNotify, progress: true},
		{run: uptesting.RunTestClusterScopedWatch},
		{run: uptesting.RunTestNamespaceScopedWatch},
		{run: uptesting.RunTestWatchDispatchBookmarkEvents, flags: []bool{false}, cacherFlags: []bool{true}},
		{run: uptesting.RunTestOptionalWatchBookmarksWithCorrectResourceVersion, skipEtcd: onlyCacher},
		{run: uptesting.RunSendInitialEventsBackwardCompatibility},
		{run: uptesting.RunWatchSemantics},
		{run: uptesting.RunWatchSemanticInitialEventsExtended},
		{run: uptesting.RunWatchListMatchSingle},
		{run: uptesting.RunWatchErrorIsBlockingFurtherEvents, skipCacher: injects},
	}
}

// benchmarks are the functions that the benchmarks of this package call.
var benchmarks = []string{"RunBenchmarkWriteThroughput", "RunBenchmarkStoreList", "RunBenchmarkStoreStats"}

// call calls the function with what it asks for, each argument found by its type.
func (f function) call(t *testing.T, fix *fixture) {
	flags := f.flags
	if fix.backend == onCacher && f.cacherFlags != nil {
		flags = f.cacherFlags
	}
	ctx := t.Context()
	run := reflect.ValueOf(f.run)
	var args []reflect.Value
	for i := range run.Type().NumIn() {
		var arg any
		switch run.Type().In(i) {
		case reflect.TypeFor[context.Context]():
			arg = ctx
		case reflect.TypeFor[*testing.T](), reflect.TypeFor[testing.TB]():
			arg = t
		case reflect.TypeFor[upstorage.Interface](), reflect.TypeFor[uptesting.InterfaceWithPrefixTransformer](),
			reflect.TypeFor[uptesting.InterfaceWithTransformerOverride]():
			arg = fix
		case reflect.TypeFor[uptesting.KeyValidation]():
			arg = uptesting.KeyValidation(fix.validate)
		case reflect.TypeFor[uptesting.CallsValidation]():
			arg = uptesting.CallsValidation(fix.calls)
		case reflect.TypeFor[uptesting.Compaction]():
			arg = uptesting.Compaction(fix.compact)
		case reflect.TypeFor[uptesting.IncreaseRVFunc]():
			arg = uptesting.IncreaseRVFunc(fix.increase)
		case reflect.TypeFor[*uptesting.KubernetesRecorder]():
			arg = fix.recorder
		case reflect.TypeFor[func(bool)]():
			arg = fix.setFailing
		case reflect.TypeFor[error]():
			arg, fix.current.exact = errCorrupt, true
		case reflect.TypeFor[apiruntime.Codec]():
			arg = fix.codec
		case reflect.TypeFor[upvalue.Transformer]():
			arg = upvalue.Transformer(fix.prefix)
		case reflect.TypeFor[bool]():
			arg, flags = flags[0], flags[1:]
		default:
			t.Fatalf("%s wants a %s", f.name(), run.Type().In(i))
		}
		args = append(args, reflect.ValueOf(arg))
	}
	if f.progress {
		fix.keepProgress(t)
	}
	run.Call(args)
}

// TestSuite runs upstream's suite.
func TestSuite(t *testing.T) {
	for _, b := range []backend{onEtcd, onEtcdGRPC, onCacher} {
		t.Run(b.String(), func(t *testing.T) {
			for _, f := range functions() {
				t.Run(f.name(), func(t *testing.T) {
					if why := f.skipped(b); why != "" {
						t.Skip(why)
					}
					if !f.alone() {
						t.Parallel()
					}
					f.call(t, newFixture(t, b))
				})
			}
		})
	}
}

// TestSuiteIsWhole compares the tables with what upstream's package exports.
func TestSuiteIsWhole(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-m", "-f", "{{.Dir}}", "k8s.io/apiserver").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(strings.TrimSpace(string(out)), "pkg", "storage", "testing")
	files, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var exported []string
	for _, file := range files {
		if !strings.HasSuffix(file.Name(), ".go") || strings.HasSuffix(file.Name(), "_test.go") {
			continue
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir, file.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range parsed.Decls {
			if f, ok := d.(*ast.FuncDecl); ok && f.Recv == nil && strings.HasPrefix(f.Name.Name, "Run") {
				exported = append(exported, f.Name.Name)
			}
		}
	}
	known := slices.Clone(benchmarks)
	for _, f := range functions() {
		known = append(known, f.name())
	}
	slices.Sort(exported)
	slices.Sort(known)
	if !slices.Equal(exported, known) {
		t.Errorf("upstream exports\n%q\nthe tables have\n%q", exported, known)
	}
	if len(known) < 60 {
		t.Errorf("only %d functions are known", len(known))
	}
}
