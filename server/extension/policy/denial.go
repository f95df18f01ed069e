package policy

import (
	"errors"
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"weir.dev/weir/server/admission"
)

// denial is one reason why a policy refuses a request.
type denial struct {
	policy  *Policy
	binding *Binding // nil where the policy itself is at fault
	message string
	reason  metav1.StatusReason // "": Invalid
	code    int32               // 0: that of the reason
	field   string
}

// prefix is what upstream puts before the name: the kind of a validating policy, and of a mutating one the word.
func (d *denial) prefix() string {
	if d.policy.Kind == mutatingKind {
		return "policy"
	}
	return d.policy.Kind
}

// text is the whole of a denial.
func (d *denial) text() string {
	message := d.message
	if d.policy.Origin != "" {
		message = fmt.Sprintf("%s (the policy is of %s)", message, d.policy.Origin)
	}
	switch {
	case d.binding != nil:
		return fmt.Sprintf("%s '%s' with binding '%s' denied request: %s", d.prefix(), d.policy.Name, d.binding.Name, message)
	case d.policy.Kind == mutatingKind:
		return fmt.Sprintf("policy %q denied request: %s", d.policy.Name, message)
	default:
		return fmt.Sprintf("%s '%s' denied request: %s", d.prefix(), d.policy.Name, message)
	}
}

// maxCauses bounds the causes of one answer.
const maxCauses = 100

// deny is the answer to a request that was refused: in the words of the first denial, with all as its causes. Upstream
// names the first only.
func deny(a *admission.Attributes, denials []denial) error {
	first := &denials[0]
	err := apierrors.NewForbidden(a.Resource.GroupResource(), admission.NameOf(a), errors.New(first.text()))
	reason := first.reason
	if reason == "" {
		reason = metav1.StatusReasonInvalid
	}
	err.ErrStatus.Reason = reason
	if first.policy.Kind == mutatingKind {
		// As upstream: 403 whatever the reason, in the policy's words alone.
		err.ErrStatus.Message = first.text()
	} else {
		if err.ErrStatus.Code = first.code; first.code == 0 {
			err.ErrStatus.Code = codeOf(reason)
		}
	}
	for i := range denials {
		if i == maxCauses {
			err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes,
				metav1.StatusCause{Message: fmt.Sprintf("and %d more", len(denials)-maxCauses)})
			break
		}
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: denials[i].text(), Field: denials[i].field})
	}
	return err
}

// codeOf is the HTTP code of the reasons that a validation may have.
func codeOf(reason metav1.StatusReason) int32 {
	switch reason {
	case metav1.StatusReasonForbidden:
		return http.StatusForbidden
	case metav1.StatusReasonUnauthorized:
		return http.StatusUnauthorized
	case metav1.StatusReasonRequestEntityTooLarge:
		return http.StatusRequestEntityTooLarge
	default:
		return http.StatusUnprocessableEntity
	}
}
