package server

import (
	"net/http"

	"weir.dev/weir/server/admission"
	"weir.dev/weir/server/extension/policy"
	"weir.dev/weir/server/recording"
	"weir.dev/weir/server/rest"
)

// record returns the chain of admission, with a recorder around the policies where requests are recorded.
func (s *Server) record(first admission.Mutator, guarded *policy.Admission, namespaces rest.Getter) (*admission.Chain, error) {
	if s.config.Record.File == "" {
		return &admission.Chain{Mutators: []admission.Mutator{first, guarded}, Validators: []admission.Validator{guarded}}, nil
	}
	cfg := s.config.Record
	cfg.Namespaces, cfg.Policies, cfg.Logger = namespaces, guarded, s.logger
	var err error
	if cfg.Metrics, err = recording.NewMetrics(s.registry); err != nil {
		return nil, err
	}
	if s.recorder, err = recording.New(cfg); err != nil {
		return nil, err
	}
	return &admission.Chain{Mutators: []admission.Mutator{first, s.recorder}, Validators: []admission.Validator{s.recorder}}, nil
}

// recorded returns a handler whose requests are told apart where they are recorded.
func (s *Server) recorded(api http.Handler) http.Handler {
	if s.recorder == nil {
		return api
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		api.ServeHTTP(w, r.WithContext(recording.WithRequest(r.Context())))
	})
}
