package main_test

import (
	"fmt"
	"testing"

	"weir.dev/weir/abi"
	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
)

// deployment is one as kubectl apply leaves it, of about 2 KiB.
func deployment(tb testing.TB, generation int, image, more string) *document.Document {
	tb.Helper()
	return parse(tb, fmt.Sprintf(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"annotations":{"team":"storefront"},
		"creationTimestamp":"2026-01-02T03:04:05Z","generation":%d,"labels":{"app":"web","tier":"front"},
		"managedFields":[{"apiVersion":"apps/v1","fieldsType":"FieldsV1","fieldsV1":{"f:metadata":{"f:annotations":{"f:team":{}},"f:labels":{"f:app":{},"f:tier":{}}},"f:spec":{"f:replicas":{},"f:selector":{},"f:template":{"f:metadata":{"f:labels":{"f:app":{},"f:tier":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"web\"}":{".":{},"f:env":{"k:{\"name\":\"MODE\"}":{".":{},"f:name":{},"f:value":{}}},"f:image":{},"f:name":{},"f:ports":{"k:{\"containerPort\":8080,\"protocol\":\"TCP\"}":{".":{},"f:containerPort":{}}},"f:resources":{"f:limits":{"f:memory":{}},"f:requests":{"f:cpu":{},"f:memory":{}}}}}}}}},"manager":"kubectl","operation":"Apply","time":"2026-01-02T03:04:05Z"}],
		"name":"web","namespace":"shop","uid":"6f3d7f5e-98a5-4c6a-9a55-5d9d9e3f0a11"},
		"spec":{"progressDeadlineSeconds":600,"replicas":3,"revisionHistoryLimit":10,"selector":{"matchLabels":{"app":"web"}},
		%s"template":{"metadata":{"labels":{"app":"web","tier":"front"}},"spec":{"containers":[
		{"env":[{"name":"MODE","value":"production"},{"name":"REGION","value":"eu"}],"image":%q,"imagePullPolicy":"IfNotPresent","name":"web",
		"ports":[{"containerPort":8080,"protocol":"TCP"}],"resources":{"limits":{"memory":"256Mi"},"requests":{"cpu":"100m","memory":"128Mi"}},
		"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"},
		{"image":"registry.example/proxy:1.4","imagePullPolicy":"IfNotPresent","name":"proxy","resources":{},"terminationMessagePath":"/dev/termination-log","terminationMessagePolicy":"File"}],
		"dnsPolicy":"ClusterFirst","restartPolicy":"Always","schedulerName":"default-scheduler","securityContext":{},"terminationGracePeriodSeconds":30}}}}`,
		generation, more, image))
}

const rolling = `"strategy":{"rollingUpdate":{"maxSurge":"25%","maxUnavailable":"25%"},"type":"RollingUpdate"},`

// BenchmarkModule measures one call of each hook, restored memory included.
func BenchmarkModule(b *testing.B) {
	module := load(b)
	meta, err := host.NewMeta(abi.Meta{
		UID: "1", Operation: abi.OperationUpdate, Time: "2026-01-02T03:04:05Z",
		Group: "apps", Version: "v1", Kind: "Deployment", Resource: "deployments", Namespace: "shop", Name: "web",
	})
	if err != nil {
		b.Fatal(err)
	}
	old, changed := deployment(b, 1, "registry.example/web:1.0", rolling), deployment(b, 1, "registry.example/web:1.1", rolling)
	incomplete := deployment(b, 1, "registry.example/web:1.1", "")
	tests := []struct {
		name        string
		op          abi.Op
		object, old *document.Document
	}{
		{"default/nothing to do", abi.OpDefault, changed, nil},
		{"default/strategy is absent", abi.OpDefault, incomplete, nil},
		{"prepareForCreate", abi.OpPrepareForCreate, changed, nil},
		{"validateCreate", abi.OpValidateCreate, changed, nil},
		{"warningsOnCreate", abi.OpWarningsOnCreate, changed, nil},
		{"prepareForUpdate", abi.OpPrepareForUpdate, changed, old},
		{"validateUpdate", abi.OpValidateUpdate, changed, old},
		{"warningsOnUpdate", abi.OpWarningsOnUpdate, changed, old},
	}
	for _, tc := range tests {
		b.Run(tc.name, func(b *testing.B) {
			call := &host.Call{Op: tc.op, Meta: meta, Object: tc.object, OldObject: tc.old}
			var fuel uint64
			for b.Loop() {
				res, err := module.Call(b.Context(), call)
				if err != nil {
					b.Fatal(err)
				}
				if len(res.Errors) > 0 {
					b.Fatal(res.Errors)
				}
				fuel = res.Fuel
			}
			b.ReportMetric(float64(fuel), "fuel/op")
			b.ReportMetric(float64(len(tc.object.Bytes())), "object-B")
		})
	}
}
