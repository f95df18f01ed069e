package loader_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/abi"
	"weir.dev/weir/host/hosttest"
)

// seer is a guest that looks a request up in each write of an object, and refuses a new one with the answer as the value of
// an error.
func seer(name, request string, capabilities ...string) []byte {
	return seerOn(abi.OpValidateCreate, name, request, capabilities, abi.OpValidateCreate, abi.OpValidateUpdate, abi.OpValidateDelete)
}

// seerOn refuses in one hook, and looks up in others too.
func seerOn(refuses abi.Op, name, request string, capabilities []string, hooks ...abi.Op) []byte {
	g, lookup, _ := hosttest.NewAskingGuest(name, capabilities, hooks...)
	at, n := g.Text(request)
	head, headLen := g.Text(`{"errors":[{"type":"FieldValueInvalid","field":"data","value":`)
	tail, tailLen := g.Text(`}]}`)
	copyTo := func(c, to hosttest.Code, from, n int32) hosttest.Code {
		return append(c, append(to, hosttest.Code(nil).I32Const(from).I32Const(n).Op(0xfc, 10, 0, 0)...)...) // memory.copy
	}
	code := copyTo(nil, hosttest.Code(nil).I32Const(bufferAt), head, headLen)
	code = code.I32Const(at).I32Const(n).I32Const(bufferAt + headLen).I32Const(20_000).Call(lookup).LocalTee(1).
		I32Const(0).Op(opI32LtS).If(hosttest.Code(nil).I32Const(100).LocalGet(1).Op(opI32Sub).Return())
	code = copyTo(code, hosttest.Code(nil).I32Const(bufferAt+headLen).LocalGet(1).Op(opI32Add), tail, tailLen)
	return g.Finish(code.LocalGet(0).I32Const(int32(refuses)).Op(opI32Eq).If(hosttest.Code(nil).
		I32Const(int32(abi.SlotResult)).I32Const(bufferAt).LocalGet(1).I32Const(headLen + tailLen).Op(opI32Add).Call(g.Write).Drop()))
}

const opI32Sub = 0x6b

const seesLimits = `{"resource":"configmaps","namespace":"default","name":"limits","fields":["data.v"]}`

func grant(capabilities ...string) map[string]any {
	list := make([]any, len(capabilities))
	for i, c := range capabilities {
		list[i] = c
	}
	return map[string]any{"capabilities": list}
}

// makeConfigMap creates a ConfigMap, and waits until the cache has it.
func (f *fixture) makeConfigMap(t *testing.T, name, v string) *unstructured.Unstructured {
	t.Helper()
	client := f.client.Resource(configMaps).Namespace("default")
	if _, err := client.Create(t.Context(), configMap(name, v), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	return f.until(t, client, name, func(*unstructured.Unstructured) bool { return true })
}

// TestCapabilities: what a module may look up is the operator's to say, and an upgrade that asks for more waits for it.
func TestCapabilities(t *testing.T) {
	f := start(t)
	limits := f.makeConfigMap(t, "limits", "seven")
	waits := func(t *testing.T, m *unstructured.Unstructured, message ...string) {
		t.Helper()
		f.put(t, modules, m)
		got := f.settled(t, modules, m.GetName())
		c := condition(got, "Ready")
		if c.Status != metav1.ConditionFalse || c.Reason != "CapabilityNotGranted" {
			t.Errorf("Ready is %+v", c)
		}
		for _, part := range message {
			if !strings.Contains(c.Message, part) {
				t.Errorf("the message is %q, want %q in it", c.Message, part)
			}
		}
		if digest, rest, kept := strings.Cut(c.Message, " stays in force"); kept && strings.Contains(rest, digest) {
			t.Errorf("the message %q repeats a digest", c.Message)
		}
		if c := condition(got, "Compiled"); c.Status != metav1.ConditionTrue {
			t.Errorf("Compiled is %+v", c)
		}
	}
	sees := func(t *testing.T) {
		t.Helper()
		_, err := f.write(t, "x")
		want := fmt.Sprintf(`"resourceVersion":"%s"`, limits.GetResourceVersion())
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), `"v":"seven"`) || !strings.Contains(err.Error(), want) {
			t.Errorf("a write: %v, want %s in it", err, want)
		}
	}
	first := inline(seer("first", seesLimits, "lookup:configmaps"))
	second := inline(seer("second", seesLimits, "lookup:configmaps", "lookup:secrets"))

	waits(t, module("seer", first), `asks for "lookup:configmaps", which is not granted; to grant it: spec.capabilities: ["lookup:configmaps"]`)
	waits(t, module("seer", first, grant("lookup:pods", "authorize")), `spec.capabilities: ["lookup:pods", "authorize", "lookup:configmaps"]`)
	f.put(t, strategies, onConfigMaps(calls("seer")))
	got := f.ready(t, modules, module("seer", first, grant("lookup:*")))
	f.settled(t, strategies, "configmaps")
	digest, _, _ := unstructured.NestedString(got.Object, "status", "digest")
	if asked, _, _ := unstructured.NestedStringSlice(got.Object, "status", "capabilities"); !slices.Equal(asked, []string{"lookup:configmaps"}) {
		t.Errorf("status.capabilities are %q", asked)
	}
	sees(t)

	// Secrets are granted by name only. What is in force stays so.
	waits(t, module("seer", second, grant("lookup:*")), digest+" stays in force", `asks for "lookup:secrets"`, `spec.capabilities: ["lookup:*", "lookup:secrets"]`)
	sees(t)
	if err := f.Restart(t.Context()); err != nil {
		t.Fatal(err)
	}
	sees(t)
	got = f.ready(t, modules, module("seer", second, grant("lookup:*", "lookup:secrets")))
	if now, _, _ := unstructured.NestedString(got.Object, "status", "digest"); now == digest {
		t.Errorf("%s is still in force", now)
	}
	sees(t)

	// What is taken away is gone at once, though the module stays in force until there is another.
	waits(t, module("seer", second, grant("lookup:secrets")), `stays in force, but its calls that need "lookup:configmaps" fail: `, `asks for "lookup:configmaps"`)
	f.until(t, f.client.Resource(strategies), "configmaps", func(u *unstructured.Unstructured) bool {
		c := condition(u, "Ready")
		return c.Status == metav1.ConditionFalse && c.Reason == "CapabilityNotGranted" &&
			strings.Contains(c.Message, `module[seer] is not granted any more what it was: its calls that need "lookup:configmaps" fail; to grant it again: spec.capabilities: ["lookup:secrets", "lookup:configmaps"]`)
	})
	if _, err := f.write(t, "x"); !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "status 101") {
		t.Errorf("a write without the grant: %v, want the errno of the look-up", err)
	}

	// With the Module goes all that it was granted, though strategies go on calling it.
	f.ready(t, modules, module("seer", second, grant("lookup:*", "lookup:secrets")))
	f.until(t, f.client.Resource(strategies), "configmaps", func(u *unstructured.Unstructured) bool {
		return condition(u, "Ready").Status == metav1.ConditionTrue
	})
	sees(t)
	if err := f.client.Resource(modules).Delete(t.Context(), "seer", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() (bool, any) {
		_, err := f.write(t, "x")
		return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "status 101"), err
	})
}

// TestCapabilitiesAreValid: what cannot be a grant is refused when it is written.
func TestCapabilitiesAreValid(t *testing.T) {
	f := start(t)
	m := module("seer", inline(stamp("v001")), grant("lookup:pods", "lookup:pods/status", "lookup:pods"))
	_, err := f.client.Resource(modules).Create(t.Context(), m, metav1.CreateOptions{})
	for _, want := range []string{`spec.capabilities[1]: Invalid value: "lookup:pods/status": must be lookup:<resource>`, `spec.capabilities[2]: Duplicate value: "lookup:pods"`} {
		if !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q in it", err, want)
		}
	}
}

// TestLookupOfWhatIsWritten: a module that looks up the resource, and the object, whose write it judges inside the store's
// transaction neither waits for that write nor for another one.
func TestLookupOfWhatIsWritten(t *testing.T) {
	f := start(t)
	f.makeConfigMap(t, "limits", "0")
	f.put(t, modules, module("seer", inline(seer("seer", seesLimits, "lookup:configmaps")), grant("lookup:configmaps")))
	f.settled(t, modules, "seer")
	f.ready(t, strategies, onConfigMaps(calls("seer")))
	client := f.client.Resource(configMaps).Namespace("default")
	var writers sync.WaitGroup
	for i := range 4 {
		writers.Go(func() {
			for j := range 25 {
				patch := fmt.Appendf(nil, `{"data":{"v":"%d-%d"}}`, i, j)
				if _, err := client.Patch(t.Context(), "limits", types.MergePatchType, patch, metav1.PatchOptions{}); err != nil && !apierrors.IsConflict(err) {
					t.Errorf("patch: %v", err)
				}
			}
		})
	}
	writers.Wait()
	if err := client.Delete(t.Context(), "limits", metav1.DeleteOptions{}); err != nil {
		t.Error(err)
	}
}
