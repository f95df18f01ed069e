package strategy

import (
	"slices"
	"strings"

	"weir.dev/weir/abi"
	weir "weir.dev/weir/sdk/go"
)

// ValidateCreate implements weir.CreateValidator. Source: ValidateDeployment
// of Kubernetes, whose paths and texts these are.
func (Strategy) ValidateCreate(_ *weir.Context, d *Deployment) weir.ErrorList {
	return validate(d.Spec)
}

// ValidateUpdate implements weir.UpdateValidator: the rules of a new object,
// and that the selector stays. Of the old object no more is read.
func (Strategy) ValidateUpdate(_ *weir.Context, obj, old *weir.Object) weir.ErrorList {
	var d Deployment
	obj.MustDecode("", &d)
	errs := validate(d.Spec)
	if !sameAt("spec.selector", obj, old) {
		errs = append(errs, weir.Invalid("spec.selector", abi.RawJSON(obj.Raw("spec.selector")), "field is immutable"))
	}
	return errs
}

func validate(spec *DeploymentSpec) (errs weir.ErrorList) {
	if spec == nil {
		spec = &DeploymentSpec{}
	}
	const path weir.Path = "spec"
	if spec.Replicas != nil {
		errs = notNegative(errs, path.Child("replicas"), *spec.Replicas)
	}
	errs = notNegative(errs, path.Child("minReadySeconds"), spec.MinReadySeconds)
	if spec.RevisionHistoryLimit != nil {
		errs = notNegative(errs, path.Child("revisionHistoryLimit"), *spec.RevisionHistoryLimit)
	}
	if p := spec.ProgressDeadlineSeconds; p != nil {
		errs = notNegative(errs, path.Child("progressDeadlineSeconds"), *p)
		if *p <= spec.MinReadySeconds {
			errs = append(errs, weir.Invalid(path.Child("progressDeadlineSeconds"), *p, "must be greater than minReadySeconds"))
		}
	}
	errs = validateSelector(errs, spec)
	errs = validateStrategy(errs, spec.Strategy)
	return validatePod(errs, "spec.template.spec", &spec.Template.Spec)
}

func notNegative(errs weir.ErrorList, path weir.Path, n int32) weir.ErrorList {
	if n < 0 {
		errs = append(errs, weir.Invalid(path, n, "must be greater than or equal to 0"))
	}
	return errs
}

func validateSelector(errs weir.ErrorList, spec *DeploymentSpec) weir.ErrorList {
	const path weir.Path = "spec.selector"
	selector, labels := spec.Selector, spec.Template.Metadata.Labels
	valid := true
	if selector == nil {
		errs = append(errs, weir.Required(path, ""))
	} else {
		if len(selector.MatchLabels)+len(selector.MatchExpressions) == 0 {
			errs = append(errs, weir.Invalid(path, selector, "empty selector is invalid for deployment"))
		}
		before := len(errs)
		for i := range selector.MatchExpressions {
			errs = validateRequirement(errs, path.Child("matchExpressions").Index(i), &selector.MatchExpressions[i])
		}
		if valid = len(errs) == before || len(selector.MatchExpressions) == 0; !valid {
			errs = append(errs, weir.Invalid(path, selector, "invalid label selector"))
		}
	}
	if valid && !selector.matches(labels) {
		if labels == nil {
			labels = map[string]string{}
		}
		errs = append(errs, weir.Invalid("spec.template.metadata.labels", labels, "`selector` does not match template `labels`"))
	}
	return errs
}

func validateRequirement(errs weir.ErrorList, path weir.Path, r *SelectorRequirement) weir.ErrorList {
	switch r.Operator {
	case "In", "NotIn":
		if len(r.Values) == 0 {
			errs = append(errs, weir.Required(path.Child("values"), "must be specified when `operator` is 'In' or 'NotIn'"))
		}
	case "Exists", "DoesNotExist":
		if len(r.Values) > 0 {
			errs = append(errs, weir.Forbidden(path.Child("values"), "may not be specified when `operator` is 'Exists' or 'DoesNotExist'"))
		}
	default:
		errs = append(errs, weir.Invalid(path.Child("operator"), r.Operator, "not a valid selector operator"))
	}
	return errs
}

// matches tells whether a valid selector selects labels. None selects none.
func (s *LabelSelector) matches(labels map[string]string) bool {
	if s == nil {
		return false
	}
	for key, value := range s.MatchLabels {
		if have, ok := labels[key]; !ok || have != value {
			return false
		}
	}
	for _, r := range s.MatchExpressions {
		have, ok := labels[r.Key]
		listed := ok && slices.Contains(r.Values, have)
		switch r.Operator {
		case "In":
			ok = listed
		case "NotIn":
			ok = !listed
		case "DoesNotExist":
			ok = !ok
		}
		if !ok {
			return false
		}
	}
	return true
}

func validateStrategy(errs weir.ErrorList, s *UpdateStrategy) weir.ErrorList {
	const path, rolling weir.Path = "spec.strategy", "spec.strategy.rollingUpdate"
	if s == nil {
		s = &UpdateStrategy{}
	}
	switch s.Type {
	case recreate:
		if s.RollingUpdate != nil {
			errs = append(errs, weir.Forbidden(rolling, "may not be specified when strategy `type` is 'Recreate'"))
		}
		return errs
	case rollingUpdate:
	default:
		return append(errs, weir.NotSupported(path, s, recreate, rollingUpdate))
	}
	if s.RollingUpdate == nil {
		return append(errs, weir.Required(rolling, "this should be defaulted and never be nil"))
	}
	var surge, unavailable weir.IntOrString
	if v := s.RollingUpdate.MaxSurge; v != nil {
		surge = *v
	}
	if v := s.RollingUpdate.MaxUnavailable; v != nil {
		unavailable = *v
	}
	errs = intOrPercent(errs, rolling.Child("maxUnavailable"), unavailable)
	errs = intOrPercent(errs, rolling.Child("maxSurge"), surge)
	if isZero(surge) && isZero(unavailable) {
		errs = append(errs, weir.Invalid(rolling.Child("maxUnavailable"), unavailable, "may not be 0 when `maxSurge` is 0"))
	}
	if percent, ok := digits(unavailable.Str, "%"); ok {
		percent = strings.TrimLeft(percent, "0")
		if len(percent) > 2 && percent != "100" {
			errs = append(errs, weir.Invalid(rolling.Child("maxUnavailable"), unavailable, "must not be greater than 100%"))
		}
	}
	return errs
}

func intOrPercent(errs weir.ErrorList, path weir.Path, v weir.IntOrString) weir.ErrorList {
	if !v.IsString {
		return notNegative(errs, path, v.Int)
	}
	if _, ok := digits(v.Str, "%"); !ok {
		errs = append(errs, weir.Invalid(path, v, "a valid percent string must be a numeric string followed by an ending '%' "+
			"(e.g. '1%',  or '93%', regex used for validation is '[0-9]+%')"))
	}
	return errs
}

// digits cuts a suffix from a text that is decimal digits before it.
func digits(s, suffix string) (string, bool) {
	number, ok := strings.CutSuffix(s, suffix)
	return number, ok && number != "" && strings.Trim(number, "0123456789") == ""
}

func isZero(v weir.IntOrString) bool {
	if !v.IsString {
		return v.Int == 0
	}
	number := strings.TrimSuffix(v.Str, "%")
	return number != "" && strings.Trim(number, "0") == ""
}

func validatePod(errs weir.ErrorList, path weir.Path, pod *PodSpec) weir.ErrorList {
	if len(pod.Containers) == 0 {
		errs = append(errs, weir.Required(path.Child("containers"), ""))
	}
	var names []string
	for i := range pod.Containers {
		errs = validateContainer(errs, path.Child("containers").Index(i), &pod.Containers[i], names)
		names = append(names, pod.Containers[i].Name)
	}
	for i := range pod.InitContainers {
		errs = validateContainer(errs, path.Child("initContainers").Index(i), &pod.InitContainers[i], names)
		names = append(names, pod.InitContainers[i].Name)
	}
	if pod.RestartPolicy != always {
		errs = append(errs, weir.NotSupported(path.Child("restartPolicy"), pod.RestartPolicy, always))
	}
	if pod.ActiveDeadlineSeconds != nil {
		errs = append(errs, weir.Forbidden(path.Child("activeDeadlineSeconds"), "activeDeadlineSeconds in ReplicaSet is not Supported"))
	}
	return errs
}

// validateContainer checks a container that comes after those of some names.
func validateContainer(errs weir.ErrorList, path weir.Path, c *Container, names []string) weir.ErrorList {
	switch {
	case c.Name == "":
		errs = append(errs, weir.Required(path.Child("name"), ""))
	case !isLabel(c.Name):
		errs = append(errs, weir.Invalid(path.Child("name"), c.Name, "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', "+
			"and must start and end with an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?')"))
	}
	if len(c.Name) > 63 {
		errs = append(errs, weir.Invalid(path.Child("name"), c.Name, "must be no more than 63 bytes"))
	}
	if c.Name != "" && slices.Contains(names, c.Name) {
		errs = append(errs, weir.Duplicate(path.Child("name"), c.Name))
	}
	switch {
	case c.Image == "":
		errs = append(errs, weir.Required(path.Child("image"), ""))
	case c.Image != strings.TrimSpace(c.Image):
		errs = append(errs, weir.Invalid(path.Child("image"), c.Image, "must not have leading or trailing whitespace"))
	}
	switch c.ImagePullPolicy {
	case "", always, ifNotPresent, never:
	default:
		errs = append(errs, weir.NotSupported(path.Child("imagePullPolicy"), c.ImagePullPolicy, always, ifNotPresent, never))
	}
	return errs
}

// isLabel tells whether s has the characters of a DNS label (RFC 1123).
func isLabel(s string) bool {
	for i := range len(s) {
		c := s[i]
		inner := c == '-' && i > 0 && i < len(s)-1
		if !inner && (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
