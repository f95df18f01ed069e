package library_test

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/pod-security-admission/api"
	"k8s.io/pod-security-admission/policy"
	"sigs.k8s.io/yaml"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/policies"
	"weir.dev/weir/policies/cel"
)

// upstreamPods are the pods that kube-apiserver's admission plugin for Pod Security is
// tested with: for each the verdict upstream's test wants of it in the newest version, by
// path. Pods of older versions are there too.
func upstreamPods(t *testing.T) map[string]*corev1.Pod {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "go", "list", "-f", "{{.Dir}}", "k8s.io/pod-security-admission/test").Output()
	if err != nil {
		t.Fatal(err)
	}
	root := filepath.Join(strings.TrimSpace(string(out)), "testdata")
	pods := map[string]*corev1.Pod{}
	err = filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".yaml" {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		pod := &corev1.Pod{}
		if err := yaml.UnmarshalStrict(data, pod); err != nil {
			return err
		}
		name, err := filepath.Rel(root, path)
		pods[filepath.ToSlash(name)] = pod
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return pods
}

// standards judges as a namespace with a level does.
type standards struct {
	levels map[api.Level][]policies.Judge
	oracle policy.Evaluator
}

func newStandards(t *testing.T) *standards {
	t.Helper()
	engine, err := cel.New(cel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	s := &standards{levels: map[api.Level][]policies.Judge{}}
	compile := func(dir string) policies.Judge {
		judge, err := policies.CompileExpressions(policies.Engines{Conditions: engine, Rules: engine}, load(t, dir).Expressions)
		if err != nil {
			t.Fatal(err)
		}
		return judge
	}
	privileged, baseline, restricted := compile("pod-security-privileged"), compile("pod-security-baseline"), compile("pod-security-restricted")
	s.levels[api.LevelPrivileged] = []policies.Judge{privileged}
	s.levels[api.LevelBaseline] = []policies.Judge{baseline}
	s.levels[api.LevelRestricted] = []policies.Judge{baseline, restricted}
	if s.oracle, err = policy.NewEvaluator(policy.DefaultChecks(), nil); err != nil {
		t.Fatal(err)
	}
	return s
}

// denials are those of the policies of a level.
func (s *standards) denials(t *testing.T, level api.Level, object any) (messages []string) {
	t.Helper()
	raw, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := document.Parse(raw)
	if err != nil {
		t.Fatal(err)
	}
	request, err := document.Parse([]byte(`{"operation":"CREATE"}`))
	if err != nil {
		t.Fatal(err)
	}
	for _, judge := range s.levels[level] {
		d, err := judge.Judge(t.Context(), &policies.Review{Object: doc.Root(), Request: request.Root(), Memo: &policies.Memo{}})
		if err != nil {
			t.Fatal(err)
		}
		for _, denial := range d.Denials {
			if denial.Err != nil {
				t.Fatal(denial.Err)
			}
			messages = append(messages, denial.Message)
		}
	}
	return messages
}

// upstream is what kube-apiserver says of a pod.
func (s *standards) upstream(level api.Level, pod *corev1.Pod) (reasons []string) {
	for _, result := range s.oracle.EvaluatePod(api.LevelVersion{Level: level, Version: api.LatestVersion()}, &pod.ObjectMeta, &pod.Spec) {
		if !result.Allowed {
			reasons = append(reasons, result.ForbiddenReason+": "+result.ForbiddenDetail)
		}
	}
	return reasons
}

// TestPodSecurityOfUpstreamsPods: the policies and upstream's evaluator agree on each pod
// of upstream's test, and on what differs from it in what a check looks at beside it.
func TestPodSecurityOfUpstreamsPods(t *testing.T) {
	pods := upstreamPods(t)
	if len(pods) < 3000 {
		t.Fatalf("%d pods", len(pods))
	}
	variants := []struct {
		name   string
		change func(*corev1.Pod)
	}{
		{"as it is", func(*corev1.Pod) {}},
		{"of Windows", ofWindows},
		{"in a user namespace", func(p *corev1.Pod) { no := false; p.Spec.HostUsers = &no }},
		{"without the context of the pod", func(p *corev1.Pod) { p.Spec.SecurityContext = nil }},
		{"without the contexts of init containers", func(p *corev1.Pod) {
			for i := range p.Spec.InitContainers {
				p.Spec.InitContainers[i].SecurityContext = nil
			}
		}},
		{"with an ephemeral container", func(p *corev1.Pod) {
			c := p.Spec.Containers[0]
			p.Spec.EphemeralContainers = []corev1.EphemeralContainer{{EphemeralContainerCommon: corev1.EphemeralContainerCommon{
				Name: "e", Image: c.Image, Ports: c.Ports, SecurityContext: c.SecurityContext, LivenessProbe: c.LivenessProbe, Lifecycle: c.Lifecycle,
			}}}
		}},
	}
	s, seen := newStandards(t), map[string]bool{}
	denied, allowed := 0, 0
	for _, name := range slices.Sorted(maps.Keys(pods)) {
		for _, variant := range variants {
			pod := pods[name].DeepCopy()
			variant.change(pod)
			raw, err := json.Marshal(pod.Spec)
			if err != nil {
				t.Fatal(err)
			}
			about, err := json.Marshal(pod.Annotations)
			if err != nil {
				t.Fatal(err)
			}
			if key := string(raw) + string(about); seen[key] {
				continue
			} else {
				seen[key] = true
			}
			pod.Kind, pod.APIVersion = "Pod", "v1"
			for _, level := range []api.Level{api.LevelPrivileged, api.LevelBaseline, api.LevelRestricted} {
				got, want := s.denials(t, level, pod), s.upstream(level, pod)
				if (len(got) > 0) != (len(want) > 0) {
					t.Errorf("%s %s, %s:\ngot  %q\nwant %q", name, variant.name, level, got, want)
				}
				if len(want) > 0 {
					denied++
				} else {
					allowed++
				}
			}
		}
	}
	if denied < 500 || allowed < 500 {
		t.Errorf("%d denied, %d allowed", denied, allowed)
	}
}

// ofWindows makes a pod one for Windows. What it then may not have, validation refuses
// before any policy: upstream does not ask for it again.
func ofWindows(p *corev1.Pod) {
	p.Spec.OS = &corev1.PodOS{Name: corev1.Windows}
	strip := func(c **corev1.SecurityContext) {
		if *c != nil {
			*c = &corev1.SecurityContext{WindowsOptions: (*c).WindowsOptions, RunAsNonRoot: (*c).RunAsNonRoot}
		}
	}
	for i := range p.Spec.Containers {
		strip(&p.Spec.Containers[i].SecurityContext)
	}
	for i := range p.Spec.InitContainers {
		strip(&p.Spec.InitContainers[i].SecurityContext)
	}
	if c := p.Spec.SecurityContext; c != nil {
		p.Spec.SecurityContext = &corev1.PodSecurityContext{WindowsOptions: c.WindowsOptions, RunAsNonRoot: c.RunAsNonRoot}
	}
}

// TestPodSecurityOfContexts sets each context that a pod of upstream's test has beside
// each of a container, with and without a user namespace.
func TestPodSecurityOfContexts(t *testing.T) {
	ofPods, ofContainers := map[string]*corev1.PodSecurityContext{"null": nil}, map[string]*corev1.SecurityContext{"null": nil}
	key := func(v any) string {
		raw, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	no := false
	rooted := &corev1.PodSecurityContext{RunAsNonRoot: &no}
	ofPods[key(rooted)] = rooted
	for name, pod := range upstreamPods(t) {
		if !strings.Contains(name, "/v1.37/") {
			continue
		}
		if c := pod.Spec.SecurityContext; c != nil {
			ofPods[key(c)] = c
		}
		for _, c := range slices.Concat(pod.Spec.Containers, pod.Spec.InitContainers) {
			if c.SecurityContext != nil {
				ofContainers[key(c.SecurityContext)] = c.SecurityContext
			}
		}
	}
	if len(ofPods) < 20 || len(ofContainers) < 40 {
		t.Fatalf("%d contexts of pods, %d of containers", len(ofPods), len(ofContainers))
	}
	s := newStandards(t)
	for of, podContext := range ofPods {
		for in, context := range ofContainers {
			pod := &corev1.Pod{Spec: corev1.PodSpec{SecurityContext: podContext, Containers: []corev1.Container{{Name: "c", SecurityContext: context}}}}
			pod.Kind, pod.APIVersion = "Pod", "v1"
			for _, hostUsers := range []*bool{nil, &no} {
				pod.Spec.HostUsers = hostUsers
				for _, level := range []api.Level{api.LevelBaseline, api.LevelRestricted} {
					got, want := s.denials(t, level, pod), s.upstream(level, pod)
					if (len(got) > 0) != (len(want) > 0) {
						t.Errorf("%s in %s, host users %v, %s:\ngot  %q\nwant %q", in, of, hostUsers == nil, level, got, want)
					}
				}
			}
		}
	}
}

// TestPodSecurityFixtures: what upstream's test wants of the pods of the newest version.
func TestPodSecurityFixtures(t *testing.T) {
	const newest = "v1.37"
	s, ran := newStandards(t), 0
	for name, pod := range upstreamPods(t) {
		level, rest, _ := strings.Cut(name, "/")
		version, rest, _ := strings.Cut(rest, "/")
		verdict, _, _ := strings.Cut(rest, "/")
		if version != newest {
			continue
		}
		ran++
		for i, v := range pod.Spec.Volumes {
			if v.VolumeSource == (corev1.VolumeSource{}) { // as the server defaults it
				pod.Spec.Volumes[i].EmptyDir = &corev1.EmptyDirVolumeSource{}
			}
		}
		pod.Kind, pod.APIVersion = "Pod", "v1"
		if got := s.denials(t, api.Level(level), pod); (len(got) > 0) != (verdict == "fail") {
			t.Errorf("%s: got %q", name, got)
		}
	}
	if ran < 100 {
		t.Errorf("%d pods of %s", ran, newest)
	}
}
