package loader

import (
	"strings"
	"testing"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies/cel"
	"weir.dev/weir/server/rest"
)

func judgement(t *testing.T, layer rest.Layer, text string) string {
	t.Helper()
	obj, err := document.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	onCreate, err := layer.Validate(t.Context(), obj)
	if err != nil {
		return "error: " + err.Error()
	}
	onUpdate, err := layer.ValidateUpdate(t.Context(), obj, obj)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, e := range onCreate {
		texts = append(texts, e.Error())
	}
	if len(onUpdate) != len(onCreate) {
		t.Errorf("an update has other errors: %v", onUpdate)
	}
	return strings.Join(texts, "\n")
}

const someDigest = "sha256:aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"

func TestModuleGuard(t *testing.T) {
	tests := []struct{ name, spec, want string }{
		{"inline", `{"source":{"inline":"AGFzbQ=="}}`, ""},
		{"file", `{"source":{"file":"a/b.wasm"},"limits":{"memoryBytes":1048576,"fuel":1000,"timeoutMilliseconds":60000}}`, ""},
		{"no source", `{"source":{}}`, "spec.source: Invalid value: exactly one of inline, configMapRef, secretRef, file, url and oci is required"},
		{"two sources", `{"source":{"inline":"AGFzbQ==","file":"x"}}`, "spec.source: Invalid value: exactly one of inline, configMapRef, secretRef, file, url and oci is required"},
		{"an empty reference", `{"source":{"configMapRef":{}}}`,
			"spec.source.configMapRef.namespace: Required value\nspec.source.configMapRef.name: Required value\nspec.source.configMapRef.key: Required value"},
		{"a file that leads out", `{"source":{"file":"../x.wasm"}}`,
			`spec.source.file: Invalid value: "../x.wasm": must be a path below the server's module directory (--module-dir), without .. and not absolute`},
		{"an absolute file", `{"source":{"file":"/x.wasm"}}`,
			`spec.source.file: Invalid value: "/x.wasm": must be a path below the server's module directory (--module-dir), without .. and not absolute`},
		{"a digest", `{"source":{"file":"x","digest":"sha256:abc"}}`,
			`spec.source.digest: Invalid value: "sha256:abc": must be sha256: and 64 hexadecimal digits in lower case`},
		{"an address", `{"source":{"url":"https://a.example/m.wasm","digest":"` + someDigest + `"}}`, ""},
		{"an address without a digest", `{"source":{"url":"https://a.example/m.wasm"}}`,
			"spec.source.digest: Required value: what an address has can change: say which module it must be, as weir module inspect prints it"},
		{"a plain address", `{"source":{"url":"http://a.example/m.wasm","digest":"` + someDigest + `"}}`,
			"spec.source.url: Invalid value: must be https: plain http is for loopback only"},
		{"an address with a password", `{"source":{"url":"https://u:secret@a.example/","digest":"` + someDigest + `"}}`,
			"spec.source.url: Invalid value: must not have credentials"},
		{"an image by its tag", `{"source":{"oci":{"image":"a.example/m:v1","pullSecretRef":{"namespace":"n","name":"s"}}}}`, ""},
		{"an image by its digest", `{"source":{"oci":{"image":"a.example/m@` + someDigest + `"}}}`, ""},
		{"an image without a registry", `{"source":{"oci":{"image":"m:v1","pullSecretRef":{}}}}`,
			`spec.source.oci.image: Invalid value: image "m:v1" names no registry: it is REGISTRY/REPOSITORY:TAG or REGISTRY/REPOSITORY@sha256:DIGEST` +
				"\nspec.source.oci.pullSecretRef.namespace: Required value\nspec.source.oci.pullSecretRef.name: Required value"},
		{"an image by plain http", `{"source":{"oci":{"image":"a.example/m:v1","plainHTTP":true}}}`,
			`spec.source.oci.image: Invalid value: image "a.example/m:v1": plain http is for loopback only`},
		{"no image", `{"source":{"oci":{}}}`, "spec.source.oci.image: Required value"},
		{"a Secret", `{"source":{"secretRef":{"namespace":"n","name":"s"}}}`, "spec.source.secretRef.key: Required value"},
		{"a signature without a key", `{"source":{"file":"x"},"verify":{"signature":"AAAA"}}`, "spec.verify: Invalid value: exactly one of publicKey and publicKeyFrom is required"},
		{"a key that is none", `{"source":{"file":"x"},"verify":{"publicKey":"x","signature":"AAAA"}}`,
			"spec.verify.publicKey: Invalid value: public key: not PEM: it begins with -----BEGIN PUBLIC KEY-----"},
		{"a key without a signature", `{"source":{"file":"x"},"verify":{"publicKeyFrom":{"configMapRef":{"namespace":"n","name":"c","key":"k"}}}}`,
			"spec.verify.signature: Required value: only an image in a registry has its signature beside it: give signature or signatureURL"},
		{"an image with a key", `{"source":{"oci":{"image":"a.example/m:v1"}},"verify":{"publicKeyFrom":{"secretRef":{"namespace":"n","name":"c","key":"k"}}}}`, ""},
		{"a key from nowhere, two signatures, a plain address", `{"source":{"file":"x"},"verify":{"publicKeyFrom":{},"signature":"AAAA","signatureURL":"http://a.example/"}}`,
			"spec.verify.publicKeyFrom: Invalid value: exactly one of configMapRef and secretRef is required\n" +
				"spec.verify: Invalid value: at most one of signature and signatureURL may be set\n" +
				"spec.verify.signatureURL: Invalid value: must be https: plain http is for loopback only"},
		{"negative limits", `{"source":{"file":"x"},"limits":{"memoryBytes":-1,"fuel":-2,"timeoutMilliseconds":-3}}`,
			"spec.limits.memoryBytes: Invalid value: -1: must not be negative\nspec.limits.fuel: Invalid value: -2: must not be negative\nspec.limits.timeoutMilliseconds: Invalid value: -3: must not be negative"},
		{"large limits", `{"source":{"file":"x"},"limits":{"memoryBytes":2147483648}}`, "spec.limits: Invalid value: host: more than 1 GiB of memory for a guest"},
		{"a long timeout", `{"source":{"file":"x"},"limits":{"timeoutMilliseconds":9223372036854775807}}`,
			"spec.limits.timeoutMilliseconds: Invalid value: 9223372036854775807: must be at most 60000"},
		{"tests", `{"source":{"file":"x"},"tests":[{"hook":"validateCreate"},{"name":"a","hook":"default"},{"name":"a","hook":"configure"}]}`,
			`spec.tests[0].name: Required value` + "\n" + `spec.tests[2].name: Duplicate value: "a"` + "\n" +
				`spec.tests[2].hook: Unsupported value: "configure": supported values: "admitMutate", "admitValidate", "canonicalize", "connect", "convert", "default", "prepareForCreate", "prepareForUpdate", "statusPrepare", "statusValidate", "validateCreate", "validateDelete", "validateUpdate", "warningsOnCreate", "warningsOnUpdate"`},
		{"not a Module", `{"source":5}`, "error: not a Module: json: cannot unmarshal number into Go struct field ModuleSpec.spec.source of type v1alpha1.ModuleSource"},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := judgement(t, ModuleGuard(), `{"metadata":{"name":"m"},"spec":`+tc.spec+`}`); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
}

func TestStrategyGuard(t *testing.T) {
	engine, err := cel.New(cel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	guard := StrategyGuard(engine)
	tests := []struct{ name, object, spec, want string }{
		{"rules", "widgets.example.com", `{"group":"example.com","resource":"widgets","layers":[{"name":"a","cel":{"validations":[{"expression":"object.spec.n > 0"}]}}]}`, ""},
		{"a module that is not there yet", "pods", `{"group":"","resource":"pods","layers":[{"name":"a","module":{"name":"later","settings":{"a":1}}}]}`, ""},
		{"another name", "widgets", `{"group":"example.com","resource":"widgets","layers":[]}`,
			`metadata.name: Invalid value: "widgets": must be spec.resource and, behind a dot, spec.group: "widgets.example.com"`},
		{"a configuration kind", "modules.weir.dev", `{"group":"weir.dev","resource":"modules","layers":[]}`,
			`spec.group: Forbidden: configuration kinds are guarded natively, so that no strategy can lock out its own repair`},
		{"policies", "validatingadmissionpolicies.admissionregistration.k8s.io", `{"group":"admissionregistration.k8s.io","resource":"validatingadmissionpolicies","layers":[]}`,
			`spec.group: Forbidden: configuration kinds are guarded natively, so that no strategy can lock out its own repair`},
		{"definitions", "customresourcedefinitions.apiextensions.k8s.io", `{"group":"apiextensions.k8s.io","resource":"customresourcedefinitions","layers":[]}`,
			`spec.group: Forbidden: configuration kinds are guarded natively, so that no strategy can lock out its own repair`},
		{"layers without a name or anything else", "pods", `{"group":"","resource":"pods","layers":[{"name":""},{"name":"a","module":{"name":"m"}},{"name":"a","module":{"name":"m"}}]}`,
			"spec.layers[0].name: Invalid value: a name is required\n" +
				"spec.layers[0]: Invalid value: exactly one of cel and module is required\n" +
				"spec.layers[2].name: Invalid value: \"a\" is used by another layer"},
		{"a rule that does not compile", "pods", `{"group":"","resource":"pods","layers":[{"name":"a","cel":{"validations":[{"expression":"objekt.spec.n > 0"}]}}]}`,
			`spec.layers[0].cel.validations[0].expression: Invalid value: "objekt.spec.n > 0": 1:1: undeclared reference to 'objekt' (in container '')
 | objekt.spec.n > 0
 | ^`},
	}
	for _, tc := range tests {
		t.Run(tc.name, func(t *testing.T) {
			if got := judgement(t, guard, `{"metadata":{"name":"`+tc.object+`"},"spec":`+tc.spec+`}`); got != tc.want {
				t.Errorf("got\n%s\nwant\n%s", got, tc.want)
			}
		})
	}
	if _, err := absentGuest("m").Call(t.Context(), nil); err == nil || !strings.Contains(err.Error(), "module[m] is not loaded") {
		t.Errorf("call of a module that is not there: %v", err)
	}
}
