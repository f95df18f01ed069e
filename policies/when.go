package policies

import "context"

// When returns a Judge that is only asked where conditions hold. Nil conditions always do.
func When(conditions *Conditions, judge Judge) Judge {
	if conditions == nil {
		return judge
	}
	return conditional{conditions, judge}
}

type conditional struct {
	conditions *Conditions
	judge      Judge
}

// Mentions reports whether an input is read, which a judge is asked that can tell.
func (c conditional) Mentions(input string) bool {
	judge, tells := c.judge.(interface{ Mentions(input string) bool })
	return !tells || judge.Mentions(input) || c.conditions.Mentions(input)
}

// ReadsLate reports whether an input is taken from Review.Late. Conditions take none, and see no namespace.
func (c conditional) ReadsLate(input string) bool {
	judge, tells := c.judge.(interface{ ReadsLate(input string) bool })
	return tells && judge.ReadsLate(input) && !c.conditions.Mentions(input)
}

// Judge implements Judge.
func (c conditional) Judge(ctx context.Context, r *Review) (*Decision, error) {
	holds, err := c.conditions.Hold(ctx, r)
	if err != nil || !holds {
		return admitted, err
	}
	return c.judge.Judge(ctx, r)
}
