package storage

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

func TestParseResourceVersion(t *testing.T) {
	// What no int64 of etcd's reaches is one revision, which is in the future.
	const never = 1<<63 - 2
	for text, want := range map[string]uint64{"": 0, "0": 0, "1": 1, "9223372036854775806": never, "9223372036854775807": never, "18446744073709551615": never} {
		if got, err := ParseResourceVersion(text); err != nil || got != want {
			t.Errorf("%q: got %d, %v, want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"x", "-1", "1.0", " 1", "18446744073709551616", "0x1"} {
		if got, err := ParseResourceVersion(text); CodeOf(err) != ErrCodeBadResourceVersion {
			t.Errorf("%q: got %d, %v, want an error", text, got, err)
		}
	}
	if got := FormatResourceVersion(0) + FormatResourceVersion(42); got != "42" {
		t.Errorf("got %q", got)
	}
}

func TestResolveListRevision(t *testing.T) {
	const prefix = "/registry/configmaps/"
	token := func(rv int64) string {
		text, err := EncodeContinue(prefix+"default/a\x00", prefix, rv)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	const exact, notOlder = metav1.ResourceVersionMatchExact, metav1.ResourceVersionMatchNotOlderThan
	start := prefix + "default/a\x00"
	tests := []struct {
		name  string
		rv    string
		match metav1.ResourceVersionMatch
		limit int64
		token string
		one   bool
		want  ListRevision
		code  ErrorCode
	}{
		{name: "unset"},
		{name: "0", rv: "0"},
		{name: "0, limit", rv: "0", limit: 1},
		{name: "N", rv: "5", want: ListRevision{AtLeast: 5}},
		{name: "N, limit", rv: "5", limit: 1, want: ListRevision{Exact: 5}},
		{name: "N, limit, one object", rv: "5", limit: 1, one: true, want: ListRevision{AtLeast: 5}},
		{name: "N, exact", rv: "5", match: exact, want: ListRevision{Exact: 5}},
		{name: "N, not older, limit", rv: "5", match: notOlder, limit: 1, want: ListRevision{AtLeast: 5}},
		{name: "token", token: token(7), limit: 1, want: ListRevision{Exact: 7, StartKey: start}},
		{name: "token, 0", token: token(7), rv: "0", want: ListRevision{Exact: 7, StartKey: start}},
		{name: "token that goes on inconsistently", token: token(-1), want: ListRevision{StartKey: start}},
		{name: "token, N", token: token(7), rv: "7", code: ErrCodeBadContinue},
		{name: "bad token", token: "?", code: ErrCodeBadContinue},
		{name: "bad N", rv: "x", code: ErrCodeBadResourceVersion},
		{name: "bad match", rv: "5", match: "x", code: ErrCodeBadResourceVersion},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			got, err := ResolveListRevision(prefix, ListOptions{
				ResourceVersion: tc.rv, ResourceVersionMatch: tc.match, Recursive: !tc.one,
				Predicate: SelectionPredicate{Limit: tc.limit, Continue: tc.token},
			})
			if CodeOf(err) != tc.code || (tc.code == 0 && err != nil) || got != tc.want {
				t.Errorf("got %+v, %v, want %+v, code %d", got, err, tc.want, tc.code)
			}
		})
	}
}

func TestPreconditions(t *testing.T) {
	row := Row{Key: "/registry/x/a", Value: NewText([]byte(`{"metadata":{"resourceVersion":"7","uid":"u"}}`)), ResourceVersion: 7}
	uid, otherUID, version, otherVersion := types.UID("u"), types.UID("v"), "7", "6"
	tests := []struct {
		name string
		p    *Preconditions
		row  Row
		code ErrorCode
	}{
		{name: "none", row: row},
		{name: "empty", p: &Preconditions{}, row: row},
		{name: "both hold", p: &Preconditions{UID: &uid, ResourceVersion: &version}, row: row},
		{name: "another uid", p: &Preconditions{UID: &otherUID, ResourceVersion: &version}, row: row, code: ErrCodeInvalidObj},
		{name: "another resourceVersion", p: &Preconditions{UID: &uid, ResourceVersion: &otherVersion}, row: row, code: ErrCodeResourceVersionConflicts},
		{name: "no object", p: &Preconditions{UID: &uid}, code: ErrCodeInvalidObj},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if err := tc.p.Check(row.Key, tc.row); CodeOf(err) != tc.code || (tc.code == 0 && err != nil) {
				t.Errorf("got %v, want code %d", err, tc.code)
			}
		})
	}
}
