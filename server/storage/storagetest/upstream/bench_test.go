package upstream

import (
	"flag"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/client/v3/kubernetes"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/runtime/serializer/protobuf"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apiserver/pkg/apis/example"
	examplev1 "k8s.io/apiserver/pkg/apis/example/v1"
	upstorage "k8s.io/apiserver/pkg/storage"
	upcacher "k8s.io/apiserver/pkg/storage/cacher"
	upetcd3 "k8s.io/apiserver/pkg/storage/etcd3"
	uptesting "k8s.io/apiserver/pkg/storage/testing"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
	"k8s.io/utils/clock"

	"weir.dev/weir/server/registry"
	"weir.dev/weir/server/storage/etcd3"
)

var (
	benchPods       = flag.Int("upstream.pods", 10_000, "pods of the benchmarks; upstream's have 150000")
	benchNamespaces = flag.Int("upstream.namespaces", 50, "namespaces that the pods are in")
	benchNodes      = flag.Int("upstream.nodes", 500, "nodes that the pods are on; upstream's have 5000")
)

// subject is what the benchmarks are run on, to be compared within one run.
type subject struct {
	name string
	make func(b *testing.B) upstorage.Interface
}

// subjects are upstream's cacher as kube-apiserver has it, on its etcd3 with protobuf
// over gRPC, and this server's: over the same, and over the embedded etcd.
//
// The pods that the adapter hands over from this server have a resourceVersion and
// nothing else, where nobody looks at more: the bytes of a row are written to the client
// as they are, while upstream's objects have still to be encoded.
func subjects() []subject {
	return []subject{
		{name: "upstream", make: newUpstream},
		{name: "weir-grpc", make: func(b *testing.B) upstorage.Interface { return newLean(b, true) }},
		{name: "weir-embedded", make: func(b *testing.B) upstorage.Interface { return newLean(b, false) }},
	}
}

// newEtcd returns an etcd in this process that listens, and the address.
func newEtcd(b *testing.B) (*etcd3.Embedded, string) {
	b.Helper()
	etcd, err := etcd3.StartEmbedded(b.Context(), etcd3.EmbeddedConfig{
		DataDir: b.TempDir(), UnsafeNoFsync: true, ListenClient: "127.0.0.1:0", QuotaBytes: 8 << 30,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = etcd.Close() })
	return etcd, etcd.Addr().String()
}

func newUpstream(b *testing.B) upstorage.Interface {
	b.Helper()
	scheme := runtime.NewScheme()
	metav1.AddToGroupVersion(scheme, metav1.SchemeGroupVersion)
	utilruntime.Must(example.AddToScheme(scheme))
	utilruntime.Must(examplev1.AddToScheme(scheme))
	pb := protobuf.NewSerializer(scheme, scheme)
	codec := serializer.NewCodecFactory(scheme).CodecForVersions(pb, pb, schema.GroupVersions{examplev1.SchemeGroupVersion}, nil)

	_, address := newEtcd(b)
	client, err := kubernetes.New(clientv3.Config{Endpoints: []string{address}})
	if err != nil {
		b.Fatal(err)
	}
	compactor := upetcd3.NewCompactor(client.Client, 0, clock.RealClock{}, nil)
	versioner := upstorage.APIObjectVersioner{}
	newPod := func() runtime.Object { return &example.Pod{} }
	newList := func() runtime.Object { return &example.PodList{} }
	pods := schema.GroupResource{Resource: "pods"}
	store, err := upetcd3.New(client, compactor, codec, newPod, newList, root, resource, pods,
		identity.NewEncryptCheckTransformer(), upetcd3.NewDefaultLeaseManagerConfig(), upetcd3.NewDefaultDecoder(codec, versioner), versioner)
	if err != nil {
		b.Fatal(err)
	}
	c, err := upcacher.NewCacherFromConfig(upcacher.Config{
		Storage:             store,
		Versioner:           versioner,
		GroupResource:       pods,
		EventsHistoryWindow: upcacher.DefaultEventFreshDuration,
		ResourcePrefix:      resource,
		KeyFunc:             func(obj runtime.Object) (string, error) { return upstorage.NamespaceKeyFunc(resource, obj) },
		GetAttrsFunc: func(obj runtime.Object) (labels.Set, fields.Set, error) {
			pod := obj.(*example.Pod)
			return pod.Labels, fields.Set{
				"metadata.name":      pod.Name,
				"metadata.namespace": pod.Namespace,
				"spec.nodeName":      pod.Spec.NodeName,
				"spec.restartPolicy": string(pod.Spec.RestartPolicy),
				"status.phase":       string(pod.Status.Phase),
			}, nil
		},
		NewFunc:     newPod,
		NewListFunc: newList,
		// As pods have them in kube-apiserver.
		IndexerFuncs: map[string]upstorage.IndexerFunc{
			"spec.nodeName": func(obj runtime.Object) string { return obj.(*example.Pod).Spec.NodeName },
		},
		Indexers: &cache.Indexers{
			"f:spec.nodeName":      func(obj any) ([]string, error) { return []string{obj.(*example.Pod).Spec.NodeName}, nil },
			"f:metadata.namespace": func(obj any) ([]string, error) { return []string{obj.(*example.Pod).Namespace}, nil },
		},
		Codec: codec,
		Clock: clock.RealClock{},
	})
	if err != nil {
		b.Fatal(err)
	}
	if err := c.Wait(b.Context()); err != nil {
		b.Fatal(err)
	}
	delegator := upcacher.NewCacheDelegator(c, store)
	b.Cleanup(func() {
		delegator.Stop()
		c.Stop()
		store.Close()
		compactor.Stop()
		_ = client.Close()
	})
	return delegator
}

// newLean returns this server's cacher, with the attributes as its registry reads them.
func newLean(b *testing.B, overGRPC bool) upstorage.Interface {
	b.Helper()
	etcd, address := newEtcd(b)
	client := etcd.Client()
	if overGRPC {
		var err error
		if client, err = etcd3.Dial(etcd3.DialConfig{Endpoints: []string{address}}); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = client.Close() })
	}
	store, err := etcd3.New(etcd3.Config{Client: client, Prefix: root})
	if err != nil {
		b.Fatal(err)
	}
	attrs, err := registry.AttrFunc(true, registry.Fields("spec.nodeName", "spec.restartPolicy", "status.phase"))
	if err != nil {
		b.Fatal(err)
	}
	a := &adapter{codec: newCodec(), lean: true, attributes: attrs}
	a.Interface = newCacher(b, a, store, client)
	return a
}

func benchData() uptesting.BenchmarkData {
	return uptesting.PrepareBenchmarkData(*benchNamespaces, max(*benchPods / *benchNamespaces, 1), *benchNodes)
}

func onEach(b *testing.B, run func(b *testing.B, store upstorage.Interface, data uptesting.BenchmarkData)) {
	klog.SetLogger(klog.Logger{})
	data := benchData()
	for _, s := range subjects() {
		b.Run(fmt.Sprintf("%s/Pods=%d", s.name, len(data.Pods)), func(b *testing.B) { run(b, s.make(b), data) })
	}
}

func BenchmarkStoreWriteThroughput(b *testing.B) {
	onEach(b, func(b *testing.B, store upstorage.Interface, data uptesting.BenchmarkData) {
		uptesting.RunBenchmarkWriteThroughput(b.Context(), b, store, data, true, nil)
	})
}

func BenchmarkStoreList(b *testing.B) {
	onEach(b, func(b *testing.B, store upstorage.Interface, data uptesting.BenchmarkData) {
		if err := uptesting.PrecreateBenchmarkPods(b.Context(), store, data); err != nil {
			b.Fatal(err)
		}
		for _, indexed := range []bool{true, false} {
			b.Run(fmt.Sprintf("Indexed=%v", indexed), func(b *testing.B) {
				b.ReportAllocs()
				uptesting.RunBenchmarkStoreList(b.Context(), b, store, data, indexed)
			})
		}
	})
}

func BenchmarkStoreStats(b *testing.B) {
	onEach(b, func(b *testing.B, store upstorage.Interface, data uptesting.BenchmarkData) {
		if err := uptesting.PrecreateBenchmarkPods(b.Context(), store, data); err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		uptesting.RunBenchmarkStoreStats(b.Context(), b, store)
	})
}
