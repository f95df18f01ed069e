package loader

import (
	"hash/maphash"

	"k8s.io/apimachinery/pkg/types"

	"weir.dev/weir/abi/document"
	"weir.dev/weir/server/rest"
)

// specVersion tells whether a configuration object says what it said before. Its generation alone does not: where the storage was
// restored from an earlier state, the generations that it lost are given to other specs.
type specVersion struct {
	uid        types.UID
	generation int64
	spec       uint64
}

// specSeed is that of the hashes of specs.
var specSeed = maphash.MakeSeed()

func specVersionOf(obj *document.Document) specVersion {
	m := rest.MetaOf(obj)
	return specVersion{m.UID(), m.Generation(), maphash.Bytes(specSeed, obj.Get("spec").Raw())}
}
