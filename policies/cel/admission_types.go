package cel

import (
	celgo "github.com/google/cel-go/cel"
	apiservercel "k8s.io/apiserver/pkg/cel"
)

// The types that the variables of admission have when an expression is compiled: a misspelt field is refused. Their
// values are documents all the same, as upstream's are maps: values that know their schema cost forty times as much.
// Upstream's: k8s.io/apiserver/pkg/admission/plugin/cel, BuildRequestType and BuildNamespaceType.

// admissionTypes are the types by the variable.
func admissionTypes() map[string]*apiservercel.DeclType {
	return map[string]*apiservercel.DeclType{"request": requestType(), "namespaceObject": namespaceType()}
}

// objectType returns a type of optional fields: has() may be asked of each.
func objectType(name string, fields map[string]*apiservercel.DeclType) *apiservercel.DeclType {
	out := make(map[string]*apiservercel.DeclField, len(fields))
	for field, t := range fields {
		out[field] = apiservercel.NewDeclField(field, t, false, nil, nil)
	}
	return apiservercel.NewObjectType(name, out)
}

func listOf(t *apiservercel.DeclType) *apiservercel.DeclType { return apiservercel.NewListType(t, -1) }

func mapOf(t *apiservercel.DeclType) *apiservercel.DeclType {
	return apiservercel.NewMapType(apiservercel.StringType, t, -1)
}

func requestType() *apiservercel.DeclType {
	text := apiservercel.StringType
	kind := objectType("kubernetes.GroupVersionKind", map[string]*apiservercel.DeclType{"group": text, "version": text, "kind": text})
	resource := objectType("kubernetes.GroupVersionResource", map[string]*apiservercel.DeclType{"group": text, "version": text, "resource": text})
	user := objectType("kubernetes.UserInfo", map[string]*apiservercel.DeclType{
		"username": text, "uid": text, "groups": listOf(text), "extra": mapOf(listOf(text))})
	return objectType("kubernetes.AdmissionRequest", map[string]*apiservercel.DeclType{
		"kind": kind, "resource": resource, "subResource": text, "requestKind": kind, "requestResource": resource, "requestSubResource": text,
		"name": text, "namespace": text, "operation": text, "userInfo": user, "dryRun": apiservercel.BoolType, "options": apiservercel.DynType})
}

func namespaceType() *apiservercel.DeclType {
	text, number := apiservercel.StringType, apiservercel.IntType
	// Upstream declares timestamps, which the values are not: timestamp(…) makes them of the texts.
	time := apiservercel.DynType
	condition := objectType("kubernetes.NamespaceCondition", map[string]*apiservercel.DeclType{
		"status": text, "type": text, "lastTransitionTime": time, "message": text, "reason": text})
	// UID is upstream's spelling, which no namespace has; uid is what namespaces have.
	metadata := objectType("kubernetes.NamespaceMetadata", map[string]*apiservercel.DeclType{
		"name": text, "generateName": text, "namespace": text, "labels": mapOf(text), "annotations": mapOf(text), "UID": text, "uid": text,
		"creationTimestamp": time, "deletionGracePeriodSeconds": number, "deletionTimestamp": time, "generation": number, "resourceVersion": text,
		"finalizers": listOf(text)})
	return objectType("kubernetes.Namespace", map[string]*apiservercel.DeclType{
		"metadata": metadata,
		"spec":     objectType("kubernetes.NamespaceSpec", map[string]*apiservercel.DeclType{"finalizers": listOf(text)}),
		"status":   objectType("kubernetes.NamespaceStatus", map[string]*apiservercel.DeclType{"conditions": listOf(condition), "phase": text}),
	})
}

// withTypes declares types in an environment.
func withTypes(declared ...*apiservercel.DeclType) celgo.EnvOption {
	return func(env *celgo.Env) (*celgo.Env, error) {
		known := apiservercel.NewDeclTypeProvider(declared...)
		known.SetRecognizeKeywordAsFieldName(true)
		provider, err := known.WithTypeProvider(env.CELTypeProvider())
		if err != nil {
			return nil, err
		}
		return celgo.CustomTypeProvider(provider)(env)
	}
}
