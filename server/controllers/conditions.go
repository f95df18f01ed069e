package controllers

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// setConditions says in the status of a namespace why it is still there, with upstream's types,
// reasons and texts.
func (c *Namespaces) setConditions(ctx context.Context, ns *document.Document, left []remainder, failed []error) error {
	m := rest.MetaOf(ns)
	uid := m.UID()
	conditions := c.conditions(left, failed)
	info := onUID{uid: &uid, UpdateFunc: func(_ context.Context, old *document.Document) (*document.Document, error) {
		if !waits(old) {
			return old, nil
		}
		var status corev1.NamespaceStatus
		if v := old.Get("status"); v.Exists() {
			if err := json.Unmarshal(v.Raw(), &status); err != nil {
				return nil, fmt.Errorf("stored status: %w", err)
			}
		}
		if !mergeConditions(&status, conditions) {
			return old, nil
		}
		raw, err := json.Marshal(status)
		if err != nil {
			return nil, fmt.Errorf("status: %w", err)
		}
		return old.Edit().Set(json.RawMessage(raw), "status").Document()
	}}
	_, _, err := c.cfg.Status.Update(ctx, m.Name(), info, nil, nil, false, &metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (c *Namespaces) conditions(left []remainder, failed []error) []corev1.NamespaceCondition {
	out := []corev1.NamespaceCondition{
		{Type: corev1.NamespaceDeletionDiscoveryFailure, Status: corev1.ConditionFalse, Reason: "ResourcesDiscovered", Message: "All resources successfully discovered"},
		{Type: corev1.NamespaceDeletionGVParsingFailure, Status: corev1.ConditionFalse, Reason: "ParsedGroupVersions", Message: "All legacy kube types successfully parsed"},
		{Type: corev1.NamespaceDeletionContentFailure, Status: corev1.ConditionFalse, Reason: "ContentDeleted", Message: "All content successfully deleted, may be waiting on finalization"},
		{Type: corev1.NamespaceContentRemaining, Status: corev1.ConditionFalse, Reason: "ContentRemoved", Message: "All content successfully removed"},
		{Type: corev1.NamespaceFinalizersRemaining, Status: corev1.ConditionFalse, Reason: "ContentHasNoFinalizers", Message: "All content-preserving finalizers finished"},
	}
	if len(failed) > 0 {
		texts := make([]string, len(failed))
		for i, err := range failed {
			texts[i] = err.Error()
		}
		slices.Sort(texts)
		out[2].Status, out[2].Reason = corev1.ConditionTrue, "ContentDeletionFailed"
		out[2].Message = fmt.Sprintf("Failed to delete all resource types, %d remaining: %s", len(failed), strings.Join(texts, ", "))
	}
	if len(left) > 0 {
		var texts []string
		held := map[string]int{}
		for _, r := range left {
			texts = append(texts, fmt.Sprintf("%s.%s has %d resource instances", r.resource.Resource, r.resource.Group, r.count))
			for f, n := range r.finalizers {
				held[f] += n
			}
		}
		slices.Sort(texts)
		out[3].Status, out[3].Reason = corev1.ConditionTrue, "SomeResourcesRemain"
		out[3].Message = "Some resources are remaining: " + strings.Join(texts, ", ")
		if len(held) > 0 {
			texts = nil
			for _, f := range slices.Sorted(maps.Keys(held)) {
				texts = append(texts, fmt.Sprintf("%s in %d resource instances", f, held[f]))
			}
			out[4].Status, out[4].Reason = corev1.ConditionTrue, "SomeFinalizersRemain"
			out[4].Message = "Some content in the namespace has finalizers remaining: " + strings.Join(texts, ", ")
		}
	}
	now := metav1.NewTime(c.cfg.Now())
	for i := range out {
		out[i].LastTransitionTime = now
	}
	return out
}

// mergeConditions brings in what changed and reports whether anything did.
func mergeConditions(status *corev1.NamespaceStatus, conditions []corev1.NamespaceCondition) bool {
	changed := false
	for _, c := range conditions {
		i := slices.IndexFunc(status.Conditions, func(have corev1.NamespaceCondition) bool { return have.Type == c.Type })
		if i < 0 {
			status.Conditions = append(status.Conditions, c)
			changed = true
			continue
		}
		have := &status.Conditions[i]
		if have.Status == c.Status && have.Reason == c.Reason && have.Message == c.Message {
			continue
		}
		if have.Status == c.Status {
			c.LastTransitionTime = have.LastTransitionTime
		}
		*have = c
		changed = true
	}
	return changed
}
