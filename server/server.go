package server

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	clientv3 "go.etcd.io/etcd/client/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/host"
	"weir.dev/weir/policies"
	"weir.dev/weir/policies/cel"
	"weir.dev/weir/server/admission/lifecycle"
	"weir.dev/weir/server/audit"
	"weir.dev/weir/server/auth"
	"weir.dev/weir/server/controllers"
	"weir.dev/weir/server/endpoints"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/filters"
	"weir.dev/weir/server/h2"
	"weir.dev/weir/server/loader"
	"weir.dev/weir/server/recording"
	"weir.dev/weir/server/resources"
	"weir.dev/weir/server/rest"
	"weir.dev/weir/server/storage/cacher"
	"weir.dev/weir/server/storage/etcd3"
	"weir.dev/weir/server/storage/value/encryption"
)

// Server is a server that is open but does not serve yet: Run does.
type Server struct {
	config       Config
	logger       *slog.Logger
	certificates *Certificates
	clientCAs    *auth.Authorities
	listener     net.Listener
	http         *http.Server
	drain        *filters.Drain
	audit        *audit.Audit // nil: nothing is audited

	clusters   *clusters
	encryption *encryption.Encryption // nil: nothing is encrypted
	storages   *storages
	host       *host.Runtime
	loader     *loader.Loader
	access     *access
	lifecycle  *controllers.Namespaces
	garbage    *controllers.Garbage
	policies   *policy.Metrics
	defaults   *defaults           // nil until the start has got to it
	recorder   *recording.Recorder // nil: nothing is recorded
	impact     *loader.Impact
	registry   *prometheus.Registry

	// starting and stopping hold /readyz back.
	starting, stopping *gate
	// opening holds requests back.
	opening *opening
}

// New opens storage, makes certificates and the admin's kubeconfig, and listens. ctx bounds
// the opening. What New returns must be Run, or Closed.
func New(ctx context.Context, config Config) (_ *Server, err error) {
	config.Complete()
	if err := config.Validate(); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(config.DataDir, 0o700); err != nil {
		return nil, fmt.Errorf("data directory: %w", err)
	}
	if config.ModuleDir == filepath.Join(config.DataDir, "modules") { // the default one; another is its owner's
		if err := os.MkdirAll(config.ModuleDir, 0o700); err != nil {
			return nil, fmt.Errorf("module directory: %w", err)
		}
	}
	s := &Server{
		config: config, logger: config.Logger, drain: &filters.Drain{Patience: stallPatience}, registry: prometheus.NewRegistry(),
		starting: newGate("the configuration is being loaded"), stopping: newGate(""),
	}
	s.stopping.set(nil)
	s.opening = newOpening(config.OpeningPatience)
	s.opening.served, s.opening.broken = s.serves, s.brokenDefinition
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.audit, err = audit.Open(config.Audit, s.logger); err != nil {
		return nil, err
	}
	if s.listener, err = listen(&config); err != nil {
		return nil, err
	}
	if err := s.openCertificates(); err != nil {
		return nil, err
	}
	if s.clusters, err = openClusters(ctx, &config); err != nil {
		return nil, err
	}
	if s.encryption, err = openEncryption(ctx, &s.config, s.registry); err != nil {
		return nil, err
	}
	if err := s.assemble(); err != nil {
		return nil, err
	}
	return s, nil
}

// openCertificates makes the server's authority and reads the others.
func (s *Server) openCertificates() (err error) {
	dir := filepath.Join(s.config.DataDir, "pki")
	if s.certificates, err = EnsureCertificates(dir, []string{s.config.BindAddress}, time.Now()); err != nil {
		return err
	}
	authorities := []string{s.certificates.CAFile}
	if s.config.ClientCAFile != "" {
		authorities = append(authorities, s.config.ClientCAFile)
	}
	s.clientCAs, err = auth.NewAuthorities(s.logger, authorities...)
	return err
}

// assemble builds everything between the listener and etcd.
func (s *Server) assemble() error {
	if err := s.openStorage(); err != nil {
		return err
	}
	var err error
	if s.access, err = newAccess(&s.config, s.clientCAs); err != nil {
		return err
	}
	if err := s.openLoader(); err != nil {
		return err
	}
	if err := s.access.follow(s.stored); err != nil {
		return err
	}
	handler, err := s.handler()
	if err != nil {
		return err
	}
	certFile, keyFile := s.config.TLSCertFile, s.config.TLSPrivateKeyFile
	if certFile == "" {
		certFile, keyFile = s.certificates.ServingCertFile, s.certificates.ServingKeyFile
	}
	s.http, err = newHTTPServer(serving{handler: handler, certFile: certFile, keyFile: keyFile, clientCAs: s.clientCAs.Pool,
		requestTimeout: s.config.RequestTimeout, http2Server: s.config.HTTP2Server, logger: s.logger})
	if err != nil {
		return err
	}
	return WriteKubeconfig(s.Kubeconfig(), s.URL(), s.trust())
}

// trust returns the certificates of the kubeconfig: with a serving certificate from outside, its file is what to trust.
func (s *Server) trust() *Certificates {
	if s.config.TLSCertFile == "" {
		return s.certificates
	}
	c := *s.certificates
	c.CAFile = s.config.TLSCertFile
	return &c
}

func (s *Server) openStorage() error {
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	etcdMetrics, err := etcd3.NewMetrics(s.registry)
	if err != nil {
		return err
	}
	sizes, err := parseCacheSizes(s.config.Storage.WatchCacheSizes)
	if err != nil {
		return err
	}
	counts, err := newCountMetrics(s.registry)
	if err != nil {
		return err
	}
	clients := map[string]*clientv3.Client{}
	for i, e := range s.clusters.all {
		if err := e.start(&s.config, etcdMetrics); err != nil {
			return err
		}
		clients[fmt.Sprintf("etcd-%d", i)] = e.client
	}
	s.storages = &storages{
		clusters: s.clusters, prefix: s.config.EtcdPrefix, config: s.config.Storage, cacheSizes: sizes, cacheBudget: cacher.NewBudget(s.config.Storage.WatchCachesEventBytes), etcdMetrics: etcdMetrics,
		encryption: s.encryption, counts: counts,
		cacheMetrics: cacher.NewMetrics(s.registry), logger: s.logger, byName: map[schema.GroupResource]*cachedStorage{},
	}
	return s.registry.Register(&etcd3.SizeCollector{Clients: clients, Logger: s.logger})
}

// CheckConsistency compares the caches that hold objects with etcd, byte by byte. Its error tells of those that differ.
func (s *Server) CheckConsistency(ctx context.Context) error { return s.storages.check(ctx) }

func (s *Server) openLoader() error {
	set, err := resources.Builtin()
	if err != nil {
		return err
	}
	engine, err := cel.New(cel.Config{})
	if err != nil {
		return err
	}
	conditions, err := engine.WithLimits(cel.Config{RunLimit: policies.MatchConditionLimit})
	if err != nil {
		return err
	}
	rules, err := newRegoCompiler()
	if err != nil {
		return err
	}
	if s.host, err = host.NewRuntime(host.Config{CacheDir: filepath.Join(s.config.DataDir, "cache", "wasm"), Registerer: s.registry}); err != nil {
		return err
	}
	metrics, err := loader.NewMetrics(s.registry)
	if err != nil {
		return err
	}
	if s.policies, err = policy.NewMetrics(s.registry); err != nil {
		return err
	}
	build := newBuilder(set, s.storages, s.config.EtcdPrefix, policies.Engines{Conditions: conditions, Rules: engine}, rules, s.logger)
	build.ttlSeconds = map[schema.GroupResource]uint64{{Resource: "events"}: s.config.Storage.eventTTLSeconds()}
	build.wait = func(ctx context.Context, gr schema.GroupResource, rv string) error {
		return s.loader.WaitFor(ctx, gr, rv)
	}
	if err := s.access.wire(build); err != nil {
		return err
	}
	served := loader.ServedWarnings(func() rest.Catalog {
		snapshot, release := s.loader.Holder().Acquire()
		release() // resources stay usable; only modules end, and nothing here calls them
		return snapshot
	})
	build.guard(schema.GroupResource{Group: "weir.dev", Resource: "modules"}, served)
	build.guard(schema.GroupResource{Group: "weir.dev", Resource: "strategies"}, served)
	for _, gr := range loader.PolicyResources() {
		build.guard(gr, served)
	}
	build.virtual[loader.ImpactResource] = impactResource{s}
	build.impact = func(ctx context.Context, obj *document.Document) { s.impact.Tell(ctx, obj) }
	if s.config.SuspendPolicies {
		s.logger.Warn("admission policies are suspended: no policy guards any write until the server runs without --suspend-policies")
	}
	sources, err := s.config.ModuleSources.client()
	if err != nil {
		return err
	}
	s.loader, err = loader.New(loader.Config{
		Sources: sources, RefetchInterval: s.config.ModuleSources.RefetchInterval,
		PolicyDir: s.config.PolicyDir, SuspendPolicies: s.config.SuspendPolicies,
		Logger: s.logger, Definitions: set.Definitions(), Builder: build, Engine: engine, Conditions: conditions, Rego: rules, Types: typeChecker{engine}, Host: s.host, ServerName: s.name(),
		Lookuper: s.lookuper(), LookupKeeper: s.lookupKeeper(), Authorizer: s.guestAuthorizer(),
		ModuleDir: s.config.ModuleDir, ArtefactDir: filepath.Join(s.config.DataDir, "artefacts"), Metrics: metrics, PolicyMetrics: s.policies,
	})
	if err != nil {
		return err
	}
	s.impact, err = loader.NewImpact(s.loader, loader.ImpactConfig{Authorizer: s.access.authorizer, Expressions: s.access.forExpressions})
	if err != nil {
		return err
	}
	namespaces, _ := s.stored("", "namespaces").(controllers.NamespaceReader)
	creater, _ := namespaces.(rest.Creater)
	s.lifecycle, err = controllers.NewNamespaces(controllers.NamespacesConfig{
		System: controllers.SystemNamespaces(), Creater: creater,
		Namespaces: namespaces, Finalize: s.subresource("", "namespaces", "finalize"), Status: s.subresource("", "namespaces", "status"),
		Catalog: func(ctx context.Context) (rest.Catalog, error) {
			if err := s.loader.WaitDefined(ctx); err != nil {
				return nil, err
			}
			snapshot, release := s.loader.Holder().Acquire()
			release() // resources stay usable; only modules end, and nothing here calls them
			return snapshot, nil
		},
		Logger: s.logger,
	})
	if err != nil {
		return err
	}
	rows, err := newLineageRows(s.storages, s.logger)
	if err != nil {
		return err
	}
	s.garbage, err = controllers.NewGarbage(controllers.GarbageConfig{
		Rows: rows, Logger: s.logger, WaitDefined: s.loader.WaitDefined,
		Pin: func() (rest.Catalog, func()) {
			snapshot, release := s.loader.Holder().Acquire()
			return snapshot, release
		},
	})
	return err
}

// handler is the chain from the filters to the endpoints.
func (s *Server) handler() (http.Handler, error) {
	namespaces, ok := s.stored("", "namespaces").(rest.Getter)
	if !ok {
		return nil, errors.New("namespaces are not served")
	}
	life, err := lifecycle.New(lifecycle.Config{Namespaces: namespaces})
	if err != nil {
		return nil, err
	}
	guarded, err := policy.NewAdmission(policy.Config{Namespaces: ownWrites{namespaces}, Authorizer: s.access.forExpressions, Metrics: s.policies})
	if err != nil {
		return nil, err
	}
	chain, err := s.record(life, guarded, namespaces)
	if err != nil {
		return nil, err
	}
	api, err := endpoints.New(endpoints.Config{
		Admission:     chain,
		Authorizer:    s.access.authorizer,
		ServerAddress: s.listener.Addr().String(),
		Version:       KubernetesVersion,
		Logger:        s.logger,
	})
	if err != nil {
		return nil, err
	}
	etcds, readiness := s.clusters.readiness(&s.config)
	live := append([]check{{"ping", func(context.Context) error { return nil }}}, etcds...)
	ready := append(slices.Concat(live, readiness), check{"configuration", s.starting.check}, check{"shutdown", s.stopping.check})
	rows := encryptionChecks(s.encryption)
	routes, err := newMux(s.recorded(api), promhttp.HandlerFor(s.gatherer(), promhttp.HandlerOpts{}),
		&health{"/healthz", slices.Concat(live, rows)}, &health{"/livez", live}, &health{"/readyz", slices.Concat(ready, rows)})
	if err != nil {
		return nil, err
	}
	routes.profiling = !s.config.DisableProfiling
	routes.impact = impactLines{s.impact}
	requests, err := filters.NewMetrics(s.registry)
	if err != nil {
		return nil, err
	}
	return filters.Chain(routes, filters.Config{
		Logger:        s.logger,
		Authenticator: s.access.authenticator,
		Authorizer:    s.access.authorizer,
		Open:          s.opening.wait,
		RequestInfo: &apirequest.RequestInfoFactory{
			APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
		Pin: func(ctx context.Context) (context.Context, func()) {
			snapshot, release := s.loader.Holder().Acquire()
			return rest.WithCatalog(s.allow(ctx), snapshot), release
		},
		RequestTimeout:              s.config.RequestTimeout,
		MaxRequestsInFlight:         s.config.MaxRequestsInFlight,
		MaxMutatingRequestsInFlight: s.config.MaxMutatingRequestsInFlight,
		Drain:                       s.drain,
		Audit:                       s.audit,
		Metrics:                     requests,
	})
}

// serves reports whether a resource is in the snapshot in force.
func (s *Server) serves(gr schema.GroupResource) bool {
	snapshot, release := s.loader.Holder().Acquire()
	defer release()
	return snapshot.Resource(gr.Group, gr.Resource) != nil
}

// brokenDefinition reports whether a definition is stored and cannot be read.
func (s *Server) brokenDefinition(ctx context.Context, name string) bool {
	getter, ok := s.stored(definitionResource.Group, definitionResource.Resource).(rest.Getter)
	if !ok {
		return false
	}
	_, err := getter.Get(ctx, name, &metav1.GetOptions{})
	return apierrors.ReasonForError(err) == metav1.StatusReasonStoreReadError
}

// stored returns what stores a built-in resource.
func (s *Server) stored(group, name string) any {
	snapshot, release := s.loader.Holder().Acquire()
	defer release()
	r := snapshot.Resource(group, name)
	if r == nil || len(r.Versions) == 0 {
		return nil
	}
	return r.Versions[0].Storage
}

func (s *Server) subresource(group, name, subresource string) rest.Updater {
	snapshot, release := s.loader.Holder().Acquire()
	defer release()
	r := snapshot.Resource(group, name)
	if r == nil || len(r.Versions) == 0 || r.Versions[0].Subresources[subresource] == nil {
		return nil
	}
	updater, _ := r.Versions[0].Subresources[subresource].Storage.(rest.Updater)
	return updater
}

// URL of the server.
func (s *Server) URL() string { return "https://" + s.listener.Addr().String() }

// Kubeconfig is the path of the admin's kubeconfig.
func (s *Server) Kubeconfig() string { return filepath.Join(s.config.DataDir, "admin.kubeconfig") }

// Ready returns nil when /readyz does.
func (s *Server) Ready() error {
	ctx := context.Background() // a gate does not wait
	return errors.Join(s.starting.check(ctx), s.stopping.check(ctx))
}

// Run serves until ctx is done, then drains: readiness goes first, watches end cleanly,
// requests under way are finished, unless their client sends nothing of the body or takes nothing of the answer, storage
// is closed. Its error is nil after a clean drain.
func (s *Server) Run(ctx context.Context) error {
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	var owned sync.WaitGroup
	for _, run := range []func(context.Context){s.loader.Run, s.access.run, s.lifecycle.Run, s.encryption.Run} {
		owned.Go(func() { run(background) })
	}
	if s.recorder != nil {
		owned.Go(func() { s.recorder.Run(background) })
	}
	owned.Go(func() {
		s.start(background, &owned)
		owned.Go(func() { s.storages.count(background) })
		s.garbage.Run(background) // not before all kinds are known
	})
	stopWaiting := s.opening.begin()
	defer stopWaiting()
	served := make(chan error, 1)
	go func() { served <- s.http.ServeTLS(s.listener, "", "") }()

	var failed error
	select {
	case <-ctx.Done():
	case failed = <-served:
	case <-s.clusters.all[0].done:
		failed = errors.New("the embedded etcd ended by itself; the log says why")
	}
	s.stopping.set(errors.New("the server is shutting down"))
	stopWaiting()
	h2.Hurry(s.listener, stallPatience)
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), s.config.ShutdownTimeout)
	defer cancel()
	late := s.drain.Close(drain)
	if late != nil {
		failed = errors.Join(failed, fmt.Errorf("requests did not end in %s: %w", s.config.ShutdownTimeout, late))
	}
	if err := s.http.Shutdown(drain); err != nil {
		if late != nil && errors.Is(err, late) {
			err = nil // it was said
		}
		failed = errors.Join(failed, err, s.http.Close())
	}
	stop()
	owned.Wait()
	return errors.Join(failed, s.Close())
}

// start makes what a fresh server needs, and says when everything is in force. What keeps it so is added to owned.
func (s *Server) start(ctx context.Context, owned *sync.WaitGroup) {
	for _, step := range []struct {
		name string
		run  func(context.Context) error
		then func()
	}{
		{"configuration", s.loader.WaitReady, s.opening.loaded},
		{"strategies", s.bootstrapStrategies, s.opening.ruled},
		{"namespaces", s.bootstrapNamespaces, func() {}},
		{"access", s.access.ready, s.opening.opened},
		{"defaults", func(ctx context.Context) error { return s.followDefaults(ctx, owned) }, func() {}},
	} {
		for pause := 100 * time.Millisecond; ; pause = min(2*pause, 5*time.Second) {
			err := step.run(ctx)
			if err == nil {
				step.then()
				break
			}
			if ctx.Err() != nil {
				return
			}
			s.starting.set(fmt.Errorf("%s: %w", step.name, err))
			s.logger.WarnContext(ctx, "start-up step failed; it is tried again", "step", step.name, "error", err, "retryIn", pause)
			timer := time.NewTimer(pause)
			select {
			case <-timer.C:
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
	}
	snapshot, release := s.loader.Holder().Acquire()
	for _, gr := range unserved(s.clusters.placed, snapshot) {
		s.logger.WarnContext(ctx, "--etcd-servers-overrides place a resource that is not served", "resource", gr)
	}
	for _, gr := range unserved(s.storages.cacheSizes, snapshot) {
		s.logger.WarnContext(ctx, "--watch-cache-sizes name a resource that is not served", "resource", gr)
	}
	release()
	s.starting.set(nil)
	s.logger.InfoContext(ctx, "ready", "url", s.URL(), "kubeconfig", s.Kubeconfig())
}

func (s *Server) bootstrapNamespaces(ctx context.Context) error {
	creater, ok := s.stored("", "namespaces").(rest.Creater)
	if !ok {
		return errors.New("namespaces are not served")
	}
	names := slices.DeleteFunc(controllers.SystemNamespaces(), func(name string) bool {
		return s.has(ctx, schema.GroupResource{Resource: "namespaces"}, name)
	})
	return controllers.Bootstrap(ctx, creater, names)
}

// has reports whether an object of a built-in resource is known to be there. A start asks before it creates: a storage that is
// full refuses a create even of what is there already.
func (s *Server) has(ctx context.Context, gr schema.GroupResource, name string) bool {
	getter, ok := s.stored(gr.Group, gr.Resource).(rest.Getter)
	if !ok {
		return false
	}
	_, err := getter.Get(ctx, name, &metav1.GetOptions{})
	return err == nil
}

// closeAudit writes the events that are still in memory.
func (s *Server) closeAudit() error {
	ctx, cancel := context.WithTimeout(context.Background(), s.config.ShutdownTimeout)
	defer cancel()
	return s.audit.Close(ctx)
}

// Close frees what New opened. Run calls it.
func (s *Server) Close() error {
	var errs []error
	if s.listener != nil {
		if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
	}
	if s.recorder != nil {
		errs = append(errs, s.recorder.Close())
	}
	errs = append(errs, s.closeAudit())
	if s.storages != nil {
		s.storages.close()
	}
	s.encryption.Close()
	if s.host != nil {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		errs = append(errs, s.host.Close(ctx))
	}
	if s.clusters != nil {
		errs = append(errs, s.clusters.close())
	}
	return errors.Join(errs...)
}
