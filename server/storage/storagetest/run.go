package storagetest

import (
	"context"
	"testing"

	"weir.dev/weir/server/storage"
)

// Run runs every test of the suite as a subtest, each on a storage of its own.
func Run(t *testing.T, fresh func(t *testing.T) (storage.Interface, Compaction)) {
	for name, run := range map[string]func(context.Context, *testing.T, storage.Interface){
		"Create":                        RunTestCreate,
		"CreateExists":                  RunTestCreateExists,
		"CreateTooLarge":                RunTestCreateTooLarge,
		"Keys":                          RunTestKeys,
		"Get":                           RunTestGet,
		"GetNotFound":                   RunTestGetNotFound,
		"GetCurrentResourceVersion":     RunTestGetCurrentResourceVersion,
		"Count":                         RunTestCount,
		"Readiness":                     RunTestReadiness,
		"Delete":                        RunTestDelete,
		"DeletePreconditions":           RunTestDeletePreconditions,
		"DeleteValidation":              RunTestDeleteValidation,
		"DeleteConflict":                RunTestDeleteConflict,
		"GuaranteedUpdate":              RunTestGuaranteedUpdate,
		"GuaranteedUpdateNoop":          RunTestGuaranteedUpdateNoop,
		"GuaranteedUpdateConflict":      RunTestGuaranteedUpdateConflict,
		"GuaranteedUpdateConcurrent":    RunTestGuaranteedUpdateConcurrent,
		"GuaranteedUpdateSuggestion":    RunTestGuaranteedUpdateSuggestion,
		"GuaranteedUpdatePreconditions": RunTestGuaranteedUpdatePreconditions,
		"TTL":                           RunTestTTL,
		"GetList":                       RunTestGetList,
		"GetListResourceVersion":        RunTestGetListResourceVersion,
		"GetListPages":                  RunTestGetListPages,
		"GetListBadContinue":            RunTestGetListBadContinue,
		"GetListSelectors":              RunTestGetListSelectors,
		"Watch":                         RunTestWatch,
		"WatchScope":                    RunTestWatchScope,
		"WatchInitial":                  RunTestWatchInitial,
		"WatchInitialEmpty":             RunTestWatchInitialEmpty,
		"WatchFuture":                   RunTestWatchFuture,
		"WatchSelectors":                RunTestWatchSelectors,
		"WatchNextContext":              RunTestWatchNextContext,
		"WatchStop":                     RunTestWatchStop,
		"WatchProgress":                 RunTestWatchProgress,
		"WatchMany":                     RunTestWatchMany,
	} {
		t.Run(name, func(t *testing.T) {
			store, _ := fresh(t)
			run(t.Context(), t, store)
		})
	}
	for name, run := range map[string]func(context.Context, *testing.T, storage.Interface, Compaction){
		"GetListCompacted": RunTestGetListCompacted,
		"WatchCompacted":   RunTestWatchCompacted,
	} {
		t.Run(name, func(t *testing.T) {
			store, compact := fresh(t)
			run(t.Context(), t, store, compact)
		})
	}
}
