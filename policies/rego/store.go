package rego

import (
	"context"
	"strconv"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/storage"

	"weir.dev/weir/abi/document"
)

// data is the read-only store of what a policy sees as data. It has no transactions.
type data struct {
	storage.WritesNotSupported
	storage.PolicyNotSupported
	storage.TriggersNotSupported
	root *ast.Term
}

var _ storage.Store = (*data)(nil)

func newData(d *document.Document) *data {
	if d == nil {
		return &data{root: ast.ObjectTerm()}
	}
	return &data{root: term(d.Root())}
}

// Read implements storage.Store. It gives an ast.Value.
func (d *data) Read(_ context.Context, _ storage.Transaction, path storage.Path) (any, error) {
	v := d.root.Value
	for _, name := range path {
		key := ast.InternedTerm(name)
		if _, ok := v.(*ast.Array); ok {
			i, err := strconv.Atoi(name)
			if err != nil {
				return nil, &storage.Error{Code: storage.NotFoundErr}
			}
			key = ast.InternedTerm(i)
		}
		next, err := v.Find(ast.Ref{key})
		if err != nil {
			return nil, &storage.Error{Code: storage.NotFoundErr}
		}
		v = next
	}
	return v, nil
}

// NewTransaction implements storage.Store.
func (*data) NewTransaction(context.Context, ...storage.TransactionParams) (storage.Transaction, error) {
	return nil, nil //nolint:nilnil // there are none
}

// Commit implements storage.Store.
func (*data) Commit(context.Context, storage.Transaction) error { return nil }

// Truncate implements storage.Store.
func (*data) Truncate(context.Context, storage.Transaction, storage.TransactionParams, storage.Iterator) error {
	return &storage.Error{Code: storage.WritesNotSupportedErr}
}

// Abort implements storage.Store.
func (*data) Abort(context.Context, storage.Transaction) {}
