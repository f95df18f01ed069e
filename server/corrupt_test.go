package server_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"weir.dev/weir/server"
	"weir.dev/weir/server/servertest"
	"weir.dev/weir/server/storage/etcd3"
)

// TestCorruptObject: what cannot be read is named, does not stand in the way of the rest, and can be deleted by
// who may do that.
func TestCorruptObject(t *testing.T) {
	at, etcd := externalEtcd(t)
	env := servertest.Start(t, servertest.Options{Config: server.Config{EtcdServers: []string{at}}})
	ctx := t.Context()
	client := kubernetes.NewForConfigOrDie(env.RESTConfig())
	for _, name := range []string{"one", "two"} {
		if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if _, err := client.CoreV1().ConfigMaps(name).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "good"}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	watching, err := client.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	if _, err := etcd.Put(ctx, "/registry/configmaps/two/bad", "{not json"); err != nil {
		t.Fatal(err)
	}
	ended := false
	for e := range watching.ResultChan() {
		if e.Type == "ERROR" {
			ended = true
			if err := apierrors.FromObject(e.Object); !strings.Contains(err.Error(), "/registry/configmaps/two/bad") {
				t.Errorf("the watch ended with %v, which does not name the key", err)
			}
		}
	}
	if !ended {
		t.Error("the watch ended without an ERROR")
	}

	_, err = client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
	if code := codeOf(err); code != http.StatusInternalServerError || !strings.Contains(err.Error(), "/registry/configmaps/two/bad") {
		t.Errorf("list: %d %v, want 500 that names the key", code, err)
	}
	if _, err := client.CoreV1().ConfigMaps("one").List(ctx, metav1.ListOptions{}); err != nil {
		t.Errorf("list of another namespace: %v", err)
	}
	if _, err := client.CoreV1().ConfigMaps("two").Get(ctx, "good", metav1.GetOptions{}); err != nil {
		t.Errorf("get of another object: %v", err)
	}
	if err := client.CoreV1().ConfigMaps("two").Delete(ctx, "bad", metav1.DeleteOptions{}); codeOf(err) != http.StatusInternalServerError {
		t.Errorf("delete: %v, want 500", err)
	}

	yes := true
	unsafely := metav1.DeleteOptions{IgnoreStoreReadErrorWithClusterBreakingPotential: &yes}
	if err := client.CoreV1().ConfigMaps("two").Delete(ctx, "good", unsafely); codeOf(err) != http.StatusConflict {
		t.Errorf("unsafe delete of what can be read: %v, want 409", err)
	}
	if err := client.CoreV1().ConfigMaps("two").Delete(ctx, "none", unsafely); !apierrors.IsNotFound(err) {
		t.Errorf("unsafe delete of what is not there: %v, want 404", err)
	}
	if err := client.CoreV1().ConfigMaps("two").DeleteCollection(ctx, unsafely, metav1.ListOptions{}); codeOf(err) != http.StatusUnprocessableEntity {
		t.Errorf("unsafe delete of a collection: %v, want 422", err)
	}
	if err := deleterOf(t, env, client).CoreV1().ConfigMaps("two").Delete(ctx, "bad", unsafely); !apierrors.IsForbidden(err) ||
		!strings.Contains(err.Error(), "unsafe-delete-ignore-read-errors") {
		t.Errorf("unsafe delete by who may only delete: %v, want 403", err)
	}
	trial := unsafely
	trial.DryRun = []string{metav1.DryRunAll}
	if err := client.CoreV1().ConfigMaps("two").Delete(ctx, "bad", trial); err != nil {
		t.Errorf("dry run: %v", err)
	}
	if resp, err := etcd.Get(ctx, "/registry/configmaps/two/bad"); err != nil || len(resp.Kvs) != 1 {
		t.Errorf("after a dry run etcd has %v, %v", resp, err)
	}
	if err := client.CoreV1().ConfigMaps("two").Delete(ctx, "bad", unsafely); err != nil {
		t.Errorf("unsafe delete: %v", err)
	}
	// A list that waits for its cache in vain takes three seconds, each time; on a busy machine another one may, too.
	for attempt := 1; ; attempt++ {
		began := time.Now()
		list, err := client.CoreV1().ConfigMaps("").List(ctx, metav1.ListOptions{})
		took := time.Since(began)
		if err != nil || took > 2*time.Second && attempt == 5 {
			t.Fatalf("list after that: %v in %s", err, took)
		}
		for _, item := range list.Items {
			if item.Name == "bad" {
				t.Error("it is still listed")
			}
		}
		if took <= 2*time.Second {
			break
		}
		if _, err := etcd.Put(ctx, "/registry/configmaps/two/bad", "{not json"); err != nil {
			t.Fatal(err)
		}
		if err := client.CoreV1().ConfigMaps("two").Delete(ctx, "bad", unsafely); err != nil {
			t.Fatalf("unsafe delete: %v", err)
		}
	}
}

// TestCorruptList: a client that reads the details of the error, as one for unsafe deletion does, finds each object that
// cannot be read in a cause of its own, and that there are more than those.
func TestCorruptList(t *testing.T) {
	for _, tc := range []struct {
		name         string
		withoutCache bool
	}{{"cache", false}, {"without cache", true}} {
		t.Run(tc.name, func(t *testing.T) {
			at, etcd := externalEtcd(t)
			env := servertest.Start(t, servertest.Options{Config: server.Config{EtcdServers: []string{at},
				Storage: server.StorageConfig{DisableWatchCache: tc.withoutCache}}})
			ctx := t.Context()
			client := kubernetes.NewForConfigOrDie(env.RESTConfig()).CoreV1().ConfigMaps("default")
			if _, err := client.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "c"}}, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
			var keys []string
			corrupt := func(name string) {
				key := "/registry/configmaps/default/" + name
				if _, err := etcd.Put(ctx, key, "{not json"); err != nil {
					t.Fatal(err)
				}
				keys = append(keys, key)
			}
			corrupt("a")
			corrupt("e")
			check := func(name string, err error, keys []string, more bool) {
				t.Helper()
				var status apierrors.APIStatus
				if !errors.As(err, &status) {
					t.Fatalf("%s: %v, want a Status", name, err)
				}
				got := status.Status()
				want := metav1.StatusDetails{Kind: "configmaps", Name: name}
				for _, key := range keys {
					want.Causes = append(want.Causes, metav1.StatusCause{Type: metav1.CauseTypeUnexpectedServerResponse, Field: key})
				}
				if more {
					want.Causes = append(want.Causes, metav1.StatusCause{Type: metav1.CauseTypeTooMany})
				}
				if got.Code != http.StatusInternalServerError || got.Reason != metav1.StatusReasonStoreReadError || got.Details == nil {
					t.Fatalf("%s: %+v, want a StoreReadError with details", name, got)
				}
				for i, cause := range got.Details.Causes {
					switch {
					case cause.Type == metav1.CauseTypeTooMany && cause.Message != "too many errors, the list is truncated":
						t.Errorf("%s: cause %d says %q, which is not what upstream says", name, i, cause.Message)
					case cause.Type != metav1.CauseTypeTooMany && (!strings.Contains(cause.Message, cause.Field) || !strings.Contains(cause.Message, "cannot be read")):
						t.Errorf("%s: cause %d is of %q and says %q", name, i, cause.Field, cause.Message)
					}
					got.Details.Causes[i].Message = ""
				}
				if diff := cmp.Diff(&want, got.Details); diff != "" {
					t.Errorf("%s: details (-want +got):\n%s", name, diff)
				}
			}
			_, err := client.Get(ctx, "a", metav1.GetOptions{})
			check("a", err, keys[:1], false)
			for _, opts := range []metav1.ListOptions{{}, {ResourceVersion: "0"}, {Limit: 10}, {FieldSelector: "metadata.name=a"}} {
				_, err = client.List(ctx, opts)
				if opts.FieldSelector != "" {
					check("list", err, keys[:1], false)
					continue
				}
				check("list", err, keys, false)
			}
			for i := range 101 {
				corrupt(fmt.Sprintf("d%03d", i))
			}
			slices.Sort(keys)
			_, err = client.List(ctx, metav1.ListOptions{})
			check("list", err, keys[:100], true)
		})
	}
}

// TestCorruptElsewhere: what cannot be read in one namespace neither forbids the watches of others nor is named to them.
func TestCorruptElsewhere(t *testing.T) {
	at, etcd := externalEtcd(t)
	env := servertest.Start(t, servertest.Options{Config: server.Config{EtcdServers: []string{at}}})
	ctx := t.Context()
	client := kubernetes.NewForConfigOrDie(env.RESTConfig())
	for _, name := range []string{"one", "two"} {
		if _, err := client.CoreV1().Namespaces().Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	one := client.CoreV1().ConfigMaps("one")
	create := func(name string) *corev1.ConfigMap {
		t.Helper()
		created, err := one.Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return created
	}
	// awaitName watches from rv until an object of the name comes, and again where a watch ends.
	minute := int64(60)
	awaitName := func(watching watch.Interface, rv, name string) {
		t.Helper()
		for began := time.Now(); time.Since(began) < 2*time.Minute; {
			if watching == nil {
				var err error
				if watching, err = one.Watch(ctx, metav1.ListOptions{ResourceVersion: rv, TimeoutSeconds: &minute}); err != nil {
					t.Fatalf("watch from %q: %v", rv, err)
				}
			}
			for e := range watching.ResultChan() {
				got, ok := e.Object.(*corev1.ConfigMap)
				if !ok {
					t.Fatalf("watch from %q: %s %v", rv, e.Type, e.Object)
				}
				if rv = got.ResourceVersion; got.Name == name {
					watching.Stop()
					return
				}
			}
			watching = nil
		}
		t.Fatalf("%s does not come", name)
	}
	rv := create("a").ResourceVersion
	before, err := one.Watch(ctx, metav1.ListOptions{ResourceVersion: rv, TimeoutSeconds: &minute})
	if err != nil {
		t.Fatal(err)
	}
	all, err := client.CoreV1().ConfigMaps("").Watch(ctx, metav1.ListOptions{ResourceVersion: rv, TimeoutSeconds: &minute})
	if err != nil {
		t.Fatal(err)
	}
	const elsewhere = "/registry/configmaps/two/secret-tenant-name"
	if _, err := etcd.Put(ctx, elsewhere, "x"); err != nil {
		t.Fatal(err)
	}
	endsWith := func(watching watch.Interface, key string) {
		t.Helper()
		for e := range watching.ResultChan() {
			if e.Type == watch.Error {
				text := apierrors.FromObject(e.Object).Error()
				if !strings.Contains(text, key) || key != elsewhere && strings.Contains(text, "secret-tenant-name") {
					t.Errorf("a watch ends with %q, want one that names %s only", text, key)
				}
				return
			}
		}
		t.Errorf("a watch ends without an ERROR that names %s", key)
	}
	endsWith(all, elsewhere)
	create("b")
	awaitName(before, rv, "b")
	awaitName(nil, "", "b") // with what is there
	awaitName(nil, rv, "b")

	const here = "/registry/configmaps/one/c"
	if _, err := etcd.Put(ctx, here, "x"); err != nil {
		t.Fatal(err)
	}
	for _, rv := range []string{"", rv} {
		watching, err := one.Watch(ctx, metav1.ListOptions{ResourceVersion: rv, TimeoutSeconds: &minute})
		if err != nil {
			t.Fatal(err)
		}
		endsWith(watching, here)
	}
}

// TestCorruptRole: beside a role that cannot be read, which grants nothing, others are in force when they are written and not
// when they are deleted. What cannot follow so is answered soon, and as written.
func TestCorruptRole(t *testing.T) {
	at, etcd := externalEtcd(t)
	env := servertest.Start(t, servertest.Options{Config: server.Config{EtcdServers: []string{at}}})
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	client := kubernetes.NewForConfigOrDie(env.RESTConfig())
	deleter := deleterOf(t, env, client).CoreV1().ConfigMaps("default")
	allowed := func() bool {
		t.Helper()
		err := deleter.Delete(ctx, "none", metav1.DeleteOptions{})
		if !apierrors.IsNotFound(err) && !apierrors.IsForbidden(err) {
			t.Fatal(err)
		}
		return apierrors.IsNotFound(err)
	}
	for _, key := range []string{"rbac.authorization.k8s.io/clusterroles/odd", "admissionregistration.k8s.io/validatingadmissionpolicies/odd"} {
		if _, err := etcd.Put(ctx, "/registry/"+key, "garbage"); err != nil {
			t.Fatal(err)
		}
	}
	roles := client.RbacV1().ClusterRoles()
	for range 3 {
		role, err := roles.Get(ctx, "deleter", metav1.GetOptions{})
		if err != nil || !allowed() {
			t.Fatalf("before: %v, allowed: %v", err, allowed())
		}
		if err := roles.Delete(ctx, "deleter", metav1.DeleteOptions{}); err != nil {
			t.Errorf("delete: %v", err)
		}
		if allowed() {
			t.Error("a role that is deleted is in force")
		}
		role.ResourceVersion, role.UID = "", ""
		if _, err := roles.Create(ctx, role, metav1.CreateOptions{}); err != nil {
			t.Errorf("create: %v", err)
		}
		if !allowed() {
			t.Error("a role that is created is not in force")
		}
	}

	policies := client.AdmissionregistrationV1().ValidatingAdmissionPolicies()
	began := time.Now()
	_, err := policies.Create(ctx, &admissionv1.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p"},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Create},
				Rule:       admissionv1.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"configmaps"}}}}}},
			Validations: []admissionv1.Validation{{Expression: "true"}},
		}}, metav1.CreateOptions{})
	if took := time.Since(began); codeOf(err) != http.StatusInternalServerError || !strings.Contains(err.Error(), "is stored, but not in force") ||
		!strings.Contains(err.Error(), "/registry/admissionregistration.k8s.io/validatingadmissionpolicies/odd") || took > 25*time.Second {
		t.Errorf("a policy: %v in %s, want one that is stored and not in force", err, took)
	}
	if _, err := policies.Get(ctx, "p", metav1.GetOptions{}); err != nil {
		t.Errorf("the policy: %v", err)
	}
}

// TestRowsOfAnotherWriter: valid JSON that is not spelled as this server spells it is an object like others.
func TestRowsOfAnotherWriter(t *testing.T) {
	at, etcd := externalEtcd(t)
	env := servertest.Start(t, servertest.Options{Config: server.Config{EtcdServers: []string{at}}})
	ctx := t.Context()
	config := env.RESTConfig()
	client := kubernetes.NewForConfigOrDie(config)
	configMaps := client.CoreV1().ConfigMaps("default")
	minute := int64(60)
	watching, err := configMaps.Watch(ctx, metav1.ListOptions{LabelSelector: "a=b", TimeoutSeconds: &minute})
	if err != nil {
		t.Fatal(err)
	}
	defer watching.Stop()
	rows := map[string]string{
		"order": `{"apiVersion":"v1","data":{"b":"1","a":"2"},"kind":"ConfigMap","metadata":{"labels":{"a":"b"},"name":"order","namespace":"default"}}`,
		"space": `{"apiVersion":"v1","data":{"a": "2"},"kind":"ConfigMap","metadata":{"labels":{ "a":"b"},"name":"space","namespace":"default"}}`,
		"twice": `{"apiVersion":"v1","data":{"a":"1","a":"2"},"kind":"ConfigMap","metadata":{"labels":{"a":"x","a":"b"},"name":"twice","namespace":"default"}}`,
		"go":    `{"kind":"ConfigMap","apiVersion":"v1","metadata":{"name":"go","namespace":"default","labels":{"a":"b"},"creationTimestamp":null},"data":{"a":"2"}}` + "\n",
	}
	for name, row := range rows {
		if _, err := etcd.Put(ctx, "/registry/configmaps/default/"+name, row); err != nil {
			t.Fatal(err)
		}
	}
	for range rows {
		e, ok := <-watching.ResultChan()
		if !ok || e.Type != "ADDED" {
			t.Fatalf("watch: %s %v, want ADDED", e.Type, e.Object)
		}
		if got := e.Object.(*corev1.ConfigMap); got.Data["a"] != "2" {
			t.Errorf("watch: %v", got)
		}
	}
	list, err := configMaps.List(ctx, metav1.ListOptions{LabelSelector: "a=b"})
	if err != nil || len(list.Items) != len(rows) {
		t.Errorf("list by a label: %d of %d, %v", len(list.Items), len(rows), err)
	}
	for _, item := range list.Items {
		if item.Data["a"] != "2" {
			t.Errorf("list: %v", item)
		}
	}
	for _, path := range []string{"/api/v1/configmaps", "/api/v1/namespaces/default/configmaps", "/api/v1/namespaces/default/configmaps?labelSelector=a%3Db"} {
		text, err := client.CoreV1().RESTClient().Get().RequestURI(path).
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Do(ctx).Raw()
		var table metav1.Table
		if err := errors.Join(err, json.Unmarshal(text, &table)); err != nil {
			t.Errorf("table of %s: %v", path, err)
			continue
		}
		listed := 0
		for _, row := range table.Rows {
			if name, _ := row.Cells[0].(string); rows[name] != "" {
				listed++
			}
		}
		if listed != len(rows) {
			t.Errorf("table of %s: %d of %d: %s", path, listed, len(rows), text)
		}
	}
	for name := range rows {
		if got, err := configMaps.Patch(ctx, name, types.MergePatchType, []byte(`{"data":{"c":"3"}}`), metav1.PatchOptions{}); err != nil || got.Data["a"] != "2" || got.Data["c"] != "3" {
			t.Errorf("patch of %s: %v, %v", name, got, err)
		}
		// As it was, for the deletion.
		if _, err := etcd.Put(ctx, "/registry/configmaps/default/"+name, rows[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := configMaps.DeleteCollection(ctx, metav1.DeleteOptions{}, metav1.ListOptions{LabelSelector: "a=b"}); err != nil {
		t.Errorf("delete of the collection: %v", err)
	}
	if list, err := configMaps.List(ctx, metav1.ListOptions{LabelSelector: "a=b"}); err != nil || len(list.Items) != 0 {
		t.Errorf("after that: %v, %v", list, err)
	}
}

// deleterOf returns the client of a user who may delete config maps.
func deleterOf(t *testing.T, env *servertest.Environment, admin kubernetes.Interface) kubernetes.Interface {
	t.Helper()
	ctx := t.Context()
	if _, err := admin.RbacV1().ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "deleter"},
		Rules: []rbacv1.PolicyRule{{Verbs: []string{"delete"}, APIGroups: []string{""}, Resources: []string{"configmaps"}}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	if _, err := admin.RbacV1().ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "deleter"},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "deleter"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "User", Name: "deleter"}}}, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	config := env.RESTConfig()
	config.Impersonate = rest.ImpersonationConfig{UserName: "deleter"}
	return kubernetes.NewForConfigOrDie(config)
}

func codeOf(err error) int {
	if status, ok := err.(apierrors.APIStatus); ok {
		return int(status.Status().Code)
	}
	return 0
}

// externalEtcd starts an etcd that is reached over gRPC, and returns where, and a client.
func externalEtcd(t *testing.T) (string, *clientv3.Client) {
	t.Helper()
	e, err := etcd3.StartEmbedded(context.WithoutCancel(t.Context()), etcd3.EmbeddedConfig{DataDir: t.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Errorf("close etcd: %v", err)
		}
	})
	return "http://" + e.Addr().String(), e.Client()
}
