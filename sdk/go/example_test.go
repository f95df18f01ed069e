package weir_test

import (
	"fmt"

	"weir.dev/weir/abi"
	weir "weir.dev/weir/sdk/go"
	"weir.dev/weir/sdk/go/weirtest"
)

type Quote struct {
	Spec struct {
		Author string `json:"author,omitempty"`
		Text   string `json:"text,omitempty"`
	} `json:"spec"`
}

type Strategy struct{}

func (Strategy) Default(_ *weir.Context, q *Quote) {
	if q.Spec.Author == "" {
		q.Spec.Author = "unknown"
	}
}

func (Strategy) ValidateCreate(_ *weir.Context, q *Quote) weir.ErrorList {
	if q.Spec.Text == "" {
		return weir.ErrorList{weir.Required("spec.text", "a quote says something")}
	}
	return nil
}

func Example() {
	hooks := weir.For[Quote](Strategy{})
	for _, op := range []abi.Op{abi.OpDefault, abi.OpValidateCreate} {
		res, err := weirtest.Run(hooks, weirtest.Call{Op: op, Object: `{"kind":"Quote","spec":{"tags":["a"]}}`})
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(op, res.Object, res.Errors)
	}
	// Output:
	// default {"kind":"Quote","spec":{"author":"unknown","tags":["a"]}} []
	// validateCreate  [{FieldValueRequired spec.text [] a quote says something}]
}
