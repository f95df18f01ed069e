// Command first-module is a strategy for quotes.example.com, in Go.
package main

import (
	"strings"

	weir "weir.dev/weir/sdk/go"
)

// Quote is what the strategy has to know of a quote. All else is kept.
type Quote struct {
	Spec struct {
		Text   string `json:"text,omitempty"`
		Author string `json:"author,omitempty"`
	} `json:"spec"`
}

// Strategy has the hooks, and its settings.
type Strategy struct {
	// Banned words, in lower case.
	Banned []string `json:"banned,omitempty"`
}

// Configure reads the settings, once.
func (s *Strategy) Configure(ctx *weir.Context) weir.ErrorList {
	return ctx.Settings(s)
}

// Default runs before a quote is validated.
func (s *Strategy) Default(_ *weir.Context, q *Quote) {
	if q.Spec.Author == "" {
		q.Spec.Author = "unknown"
	}
}

// ValidateCreate says what is wrong with a new quote.
func (s *Strategy) ValidateCreate(_ *weir.Context, q *Quote) (errs weir.ErrorList) {
	if strings.TrimSpace(q.Spec.Text) == "" {
		errs = append(errs, weir.Required("spec.text", "a quote says something"))
	}
	for _, word := range s.Banned {
		if strings.Contains(strings.ToLower(q.Spec.Text), word) {
			errs = append(errs, weir.Invalid("spec.text", q.Spec.Text, "must not say "+word))
		}
	}
	return errs
}

// ValidateUpdate says what is wrong with a change.
func (s *Strategy) ValidateUpdate(ctx *weir.Context, q, old *Quote) weir.ErrorList {
	errs := s.ValidateCreate(ctx, q)
	if q.Spec.Author != old.Spec.Author {
		errs = append(errs, weir.Forbidden("spec.author", "who said it does not change"))
	}
	return errs
}

// WarningsOnCreate warns the author of a quote, who gets it all the same.
func (s *Strategy) WarningsOnCreate(_ *weir.Context, q *Quote) []string {
	if len(q.Spec.Text) > 280 {
		return []string{"spec.text: longer than anyone reads"}
	}
	return nil
}

func init() {
	weir.Register(weir.Info{Name: "quotes", Version: "1.0.0", Group: "example.com", Resource: "quotes", Kind: "Quote"},
		weir.For[Quote](&Strategy{}))
}

func main() {}
