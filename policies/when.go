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

// Judge implements Judge.
func (c conditional) Judge(ctx context.Context, r *Review) (*Decision, error) {
	holds, err := c.conditions.Hold(ctx, r)
	if err != nil || !holds {
		return &Decision{}, err
	}
	return c.judge.Judge(ctx, r)
}
