package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"weir.dev/weir/sdk/build"
)

const (
	registration = "/apis/admissionregistration.k8s.io/v1/"
	weirKinds    = "/apis/weir.dev/v1alpha1/"
	// refused is the name that all policies refuse, so that one sees them in force.
	refused = "refused-by-policy"
)

// rules are the requests that policies are for.
var rules = []any{map[string]any{
	"apiGroups": []string{"peer.weir.dev"}, "apiVersions": []string{"v1"}, "operations": []string{"CREATE", "UPDATE"}, "resources": []string{"widgets"},
}}

// adding is what creations cost more while something is in force that prepare makes and
// that undo takes away again. What a guest adds is less than what two measurements of the
// same differ by, so it is the median of several turns, each between two without it.
func adding(prepare func(context.Context, *bench) (undo func(context.Context) error, err error)) func(context.Context, *bench) (result, error) {
	return func(ctx context.Context, b *bench) (result, error) {
		if err := b.clear(ctx); err != nil {
			return result{}, err
		}
		without, err := b.creations(ctx, "without")
		if err != nil {
			return result{}, err
		}
		turns := make([]result, b.turns)
		for i := range turns {
			undo, err := prepare(ctx, b)
			if err != nil {
				return result{}, err
			}
			with, err := b.creations(ctx, "with")
			if err := errors.Join(err, undo(context.WithoutCancel(ctx))); err != nil {
				return result{}, err
			}
			after, err := b.creations(ctx, "after")
			if err != nil {
				return result{}, err
			}
			with.value -= (without.value + after.value) / 2
			with.other = (without.other + with.other + after.other) / 3
			turns[i], without = with, after
		}
		slices.SortFunc(turns, func(a, b result) int { return cmp.Compare(a.value, b.value) })
		return turns[len(turns)/2], nil
	}
}

// creations measures creating objects, and deletes them.
func (b *bench) creations(ctx context.Context, name string) (result, error) {
	r, err := b.repeat(ctx, func(worker, i int) error {
		return b.do(ctx, worker, http.MethodPost, widgets, typeJSON, widget(fmt.Sprintf("%s-%d-%d", name, worker, i), i, 0), nil)
	})
	if err != nil {
		return r, err
	}
	return r, b.clear(ctx)
}

// post makes an object of JSON that is written by hand.
func (b *bench) post(ctx context.Context, path, apiVersion, kind, name string, more map[string]any) error {
	more["apiVersion"], more["kind"], more["metadata"] = apiVersion, kind, map[string]any{"name": name}
	raw, err := json.Marshal(more)
	if err != nil {
		return err
	}
	return b.do(ctx, 0, http.MethodPost, path, typeJSON, raw, nil)
}

// undoing deletes objects by their paths, the last first.
func (b *bench) undoing(paths []string) func(context.Context) error {
	return func(ctx context.Context) error {
		var errs []error
		for i := len(paths) - 1; i >= 0; i-- {
			errs = append(errs, b.do(ctx, 0, http.MethodDelete, paths[i], "", nil, nil))
		}
		return errors.Join(errs...)
	}
}

// inForce waits until a creation of the refused name is refused.
func (b *bench) inForce(ctx context.Context) error {
	for deadline := time.Now().Add(time.Minute); ; {
		err := b.do(ctx, 0, http.MethodPost, widgets+"?dryRun=All", typeJSON, widget(refused, 0, 0), nil)
		if err != nil && strings.Contains(err.Error(), "denied") {
			return ctx.Err()
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the policy is not in force: %w", errors.Join(err, ctx.Err()))
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// policies puts so many ValidatingAdmissionPolicies in force, which all match.
func policies(n int) func(context.Context, *bench) (func(context.Context) error, error) {
	return func(ctx context.Context, b *bench) (func(context.Context) error, error) {
		var paths []string
		for i := range n {
			name := fmt.Sprintf("peer-%d", i)
			deny := fmt.Sprintf("deny-%d", i)
			if i == n-1 {
				deny = refused
			}
			if err := b.post(ctx, registration+"validatingadmissionpolicies", "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy", name, map[string]any{
				"spec": map[string]any{"failurePolicy": "Fail", "matchConstraints": map[string]any{"resourceRules": rules},
					"validations": []any{map[string]any{"expression": fmt.Sprintf("object.spec.replicas <= 500 && object.metadata.name != '%s'", deny), "message": "denied"}}}}); err != nil {
				return nil, err
			}
			if err := b.post(ctx, registration+"validatingadmissionpolicybindings", "admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding", name,
				map[string]any{"spec": map[string]any{"policyName": name, "validationActions": []string{"Deny"}}}); err != nil {
				return nil, err
			}
			paths = append(paths, registration+"validatingadmissionpolicies/"+name, registration+"validatingadmissionpolicybindings/"+name)
		}
		return b.undoing(paths), b.inForce(ctx)
	}
}

// guest puts a module in force, or, on a server without modules, a webhook that does the same.
func guest(name string) func(context.Context, *bench) (func(context.Context) error, error) {
	return func(ctx context.Context, b *bench) (func(context.Context) error, error) {
		if b.modules == "" {
			return webhook(ctx, b)
		}
		out, err := exec.CommandContext(ctx, "go", "list", "-f", "{{.Dir}}", "weir.dev/weir/server/servertest/peer").Output()
		if err != nil {
			return nil, fmt.Errorf("find the guests: %w", err)
		}
		dir := filepath.Join(strings.TrimSpace(string(out)), "testdata", name)
		if err := build.Guest(ctx, build.Config{Dir: dir, Output: filepath.Join(b.modules, name+".wasm")}); err != nil {
			return nil, err
		}
		for _, o := range []struct {
			path, kind string
			spec       map[string]any
		}{
			{"modules", "Module", map[string]any{"source": map[string]any{"file": name + ".wasm"}}},
			{"policies", "Policy", map[string]any{"matchConstraints": map[string]any{"resourceRules": rules}, "wasm": map[string]any{"module": name}}},
			{"policybindings", "PolicyBinding", map[string]any{"policyName": name}},
		} {
			if err := b.post(ctx, weirKinds+o.path, "weir.dev/v1alpha1", o.kind, name, map[string]any{"spec": o.spec}); err != nil {
				return nil, err
			}
		}
		undo := b.undoing([]string{weirKinds + "modules/" + name, weirKinds + "policies/" + name, weirKinds + "policybindings/" + name})
		return undo, b.admits(ctx)
	}
}

// admits waits until creations are not refused, as they are while a module is not ready.
func (b *bench) admits(ctx context.Context) error {
	for deadline := time.Now().Add(time.Minute); ; {
		err := b.do(ctx, 0, http.MethodPost, widgets+"?dryRun=All", typeJSON, widget("admitted", 0, 0), nil)
		var status *statusError
		if !errors.As(err, &status) || !strings.Contains(status.text, "denied") || time.Now().After(deadline) {
			return err
		}
		if err := pause(ctx, 10*time.Millisecond); err != nil {
			return err
		}
	}
}

// webhook puts a webhook of this process in force.
func webhook(ctx context.Context, b *bench) (func(context.Context) error, error) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(review))
	server.EnableHTTP2 = true
	server.StartTLS()
	ca := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	err := b.post(ctx, registration+"validatingwebhookconfigurations", "admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration", "peer", map[string]any{
		"webhooks": []any{map[string]any{"name": "peer.weir.dev", "admissionReviewVersions": []string{"v1"}, "sideEffects": "None", "failurePolicy": "Fail", "rules": rules,
			"clientConfig": map[string]any{"url": server.URL, "caBundle": base64.StdEncoding.EncodeToString(ca)}}}})
	if err != nil {
		server.Close()
		return nil, err
	}
	undo := b.undoing([]string{registration + "validatingwebhookconfigurations/peer"})
	return func(ctx context.Context) error {
		defer server.Close()
		return undo(ctx)
	}, b.inForce(ctx)
}

// review answers for the webhook.
func review(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Request struct {
			UID    string `json:"uid"`
			Object struct {
				Metadata struct {
					Name   string            `json:"name"`
					Labels map[string]string `json:"labels"`
				} `json:"metadata"`
				Spec struct {
					Replicas int    `json:"replicas"`
					Paused   bool   `json:"paused"`
					Image    string `json:"image"`
					Title    string `json:"title"`
				} `json:"spec"`
			} `json:"object"`
		} `json:"request"`
	}
	var body bytes.Buffer
	if _, err := body.ReadFrom(r.Body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if err := json.Unmarshal(body.Bytes(), &in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	o := &in.Request.Object
	allowed := o.Metadata.Name != refused && o.Spec.Replicas <= 500 && !o.Spec.Paused && strings.HasPrefix(o.Spec.Image, "registry.example/") &&
		o.Spec.Title != "" && o.Metadata.Labels["app"] != ""
	w.Header().Set("Content-Type", typeJSON)
	_, _ = fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":{"uid":%q,"allowed":%t}}`, in.Request.UID, allowed) // who has hung up asks again
}
