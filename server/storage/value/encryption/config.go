package encryption

import (
	"errors"
	"fmt"
	"regexp"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/apiserver"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"k8s.io/apiserver/pkg/apis/apiserver/validation"
)

// parse returns what a file says, with its defaults. It is strict: a field that is not known is an error.
func parse(data []byte) (*apiserver.EncryptionConfiguration, error) {
	if len(data) == 0 {
		return nil, errors.New("file is empty")
	}
	scheme := runtime.NewScheme()
	if err := errors.Join(apiserver.AddToScheme(scheme), apiserverv1.AddToScheme(scheme)); err != nil {
		return nil, err
	}
	decoder := serializer.NewCodecFactory(scheme, serializer.EnableStrict).UniversalDecoder()
	obj, kind, err := decoder.Decode(data, nil, nil)
	if err != nil {
		return nil, errors.New(redact(err.Error()))
	}
	config, ok := obj.(*apiserver.EncryptionConfiguration)
	if !ok {
		return nil, fmt.Errorf("file holds a %s, not an EncryptionConfiguration of %s", kind, apiserverv1.SchemeGroupVersion)
	}
	return config, validate(config)
}

// validate returns everything that is wrong with a configuration.
func validate(config *apiserver.EncryptionConfiguration) error {
	var errs []error
	for _, e := range validation.ValidateEncryptionConfiguration(config, true) {
		switch e.BadValue.(type) {
		case string, []string: // names; keys are redacted already
		default:
			e.BadValue = field.OmitValueType{}
		}
		errs = append(errs, e)
	}
	for i, entry := range config.Resources {
		for j, p := range entry.Providers {
			if p.KMS == nil || p.KMS.APIVersion != "v1" {
				continue
			}
			at := field.NewPath("resources").Index(i).Child("providers").Index(j).Child("kms", "apiVersion")
			errs = append(errs, field.NotSupported(at, p.KMS.APIVersion, []string{"v2"}), fmt.Errorf(
				"%s: KMS v1 is not served (it is also what a missing apiVersion means): run a plugin that speaks KMS v2 and write apiVersion: v2; "+
					"objects that a v1 plugin encrypted must first be written again by a kube-apiserver that reads them", at))
		}
	}
	if len(errs) == 0 {
		errs = append(errs, masked(config))
	}
	return errors.Join(errs...)
}

// masked returns an error for a resource that never takes effect, as an earlier entry names its group or all.
func masked(config *apiserver.EncryptionConfiguration) error {
	seen := map[schema.GroupResource]bool{}
	for i, entry := range config.Resources {
		for j, name := range entry.Resources {
			gr := schema.ParseGroupResource(name)
			for _, wide := range []schema.GroupResource{{Group: gr.Group, Resource: "*"}, everything()} {
				if seen[wide] {
					return fmt.Errorf("%s: resource %q is masked by the earlier %q: name it before",
						field.NewPath("resources").Index(i).Child("resources").Index(j), name, spell(wide))
				}
			}
			seen[gr] = true
		}
	}
	return nil
}

// everything is what "*.*" means.
func everything() schema.GroupResource { return schema.GroupResource{Group: "*", Resource: "*"} }

// spell returns a resource as the file has it.
func spell(gr schema.GroupResource) string {
	if gr.Group == "" && gr.Resource == "*" {
		return "*."
	}
	return gr.String()
}

// redact takes out of the message of a decoder whatever may be a key that stands where it should not: long runs of
// characters of base64. Names of the format are letters only.
func redact(text string) string {
	letters := regexp.MustCompile(`^[A-Z]?[a-z]+([A-Z][a-z]+)+$`)
	return regexp.MustCompile(`[A-Za-z0-9+/_=-]{16,}`).ReplaceAllStringFunc(text, func(run string) string {
		if letters.MatchString(run) && len(run) < 32 {
			return run
		}
		return "REDACTED"
	})
}
