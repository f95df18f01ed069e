// Command go is a guest that keeps a secret wherever it can: in a global, in an
// object of the heap, and in memory that was grown. Its configure hook keeps
// that of the settings. Each validateCreate warns of what it finds kept, in
// that order, and then keeps the secret of the object, which the audit
// annotations prove.
package main

import weir "weir.dev/weir/sdk/go"

const grownBytes = 96 << 10

type box struct{ secret string }

type keeper struct {
	global [64]byte
	length int
	onHeap *box
	grown  []byte
}

// state is what the guest keeps.
var state keeper

// keep stores a secret. False is that memory which was grown is not empty.
func (k *keeper) keep(secret string) bool {
	k.length = copy(k.global[:], secret)
	k.onHeap = &box{secret: string([]byte(secret))}
	bytes := make([]byte, grownBytes)
	empty := true
	for _, b := range bytes {
		empty = empty && b == 0
	}
	copy(bytes, secret)
	k.grown = bytes[len(bytes)-len(secret):]
	copy(k.grown, secret)
	return empty
}

func (k *keeper) kept() []string {
	return []string{string(k.global[:k.length]), k.onHeap.secret, string(k.grown)}
}

type strategy struct{}

func (strategy) Configure(ctx *weir.Context) weir.ErrorList {
	var settings struct {
		Secret string `json:"secret,omitempty"`
	}
	if errs := ctx.Settings(&settings); errs != nil {
		return errs
	}
	state.keep(settings.Secret)
	return nil
}

func (strategy) ValidateCreate(ctx *weir.Context, obj *weir.Object) weir.ErrorList {
	if !obj.Has("spec.secret") {
		return nil // a call that warms the module up
	}
	ctx.Warn(state.kept()...)
	if !state.keep(obj.String("spec.secret")) {
		ctx.Warn("memory that was grown is not empty")
	}
	for i, secret := range state.kept() {
		ctx.Annotate([]string{"global", "heap", "memory"}[i], secret)
	}
	if obj.Bool("spec.trap") {
		panic("asked for")
	}
	return nil
}

func init() {
	weir.Register(weir.Info{Name: "isolation-go", Version: "1.0.0"}, weir.For[struct{}](strategy{}))
}

func main() {}
