package weir

// Defaulter fills in what the client left out. It must be idempotent and look
// at nothing but the object.
type Defaulter[T any] interface {
	Default(ctx *Context, obj *T)
}

// CreatePreparer brings a new object to its initial state.
type CreatePreparer[T any] interface {
	PrepareForCreate(ctx *Context, obj *T)
}

// CreateValidator says what is wrong with a new object.
type CreateValidator[T any] interface {
	ValidateCreate(ctx *Context, obj *T) ErrorList
}

// UpdatePreparer keeps what an update must not change.
type UpdatePreparer[T any] interface {
	PrepareForUpdate(ctx *Context, obj, old *T)
}

// UpdateValidator says what is wrong with an update, the new object as a whole
// included.
type UpdateValidator[T any] interface {
	ValidateUpdate(ctx *Context, obj, old *T) ErrorList
}

// DeleteValidator says why an object must not be deleted.
type DeleteValidator[T any] interface {
	ValidateDelete(ctx *Context, obj *T) ErrorList
}

// Canonicalizer brings a valid object to the form in which it is stored. It
// cannot refuse.
type Canonicalizer[T any] interface {
	Canonicalize(ctx *Context, obj *T)
}

// StatusPreparer is UpdatePreparer for writes to the status subresource.
type StatusPreparer[T any] interface {
	StatusPrepare(ctx *Context, obj, old *T)
}

// StatusValidator is UpdateValidator for writes to the status subresource.
type StatusValidator[T any] interface {
	StatusValidate(ctx *Context, obj, old *T) ErrorList
}

// CreateWarner warns the client of a valid new object.
type CreateWarner[T any] interface {
	WarningsOnCreate(ctx *Context, obj *T) []string
}

// UpdateWarner warns the client of a valid update.
type UpdateWarner[T any] interface {
	WarningsOnUpdate(ctx *Context, obj, old *T) []string
}

// MutatingAdmitter is mutating admission. obj is nil on DELETE and old on
// CREATE. An error refuses the request as in [ValidatingAdmitter].
type MutatingAdmitter[T any] interface {
	AdmitMutate(ctx *Context, obj, old *T) error
}

// ValidatingAdmitter is validating admission. obj is nil on DELETE and old on
// CREATE. An error refuses the request: an [ErrorList] as invalid, a *[Denial]
// as it says, and any other as forbidden with its text.
type ValidatingAdmitter[T any] interface {
	AdmitValidate(ctx *Context, obj, old *T) error
}

// Configurer is called once, before any other hook, and reads its settings
// with [Context.Settings]. What it keeps in memory, every later call starts
// from. Errors refuse the settings, and so does that there are some which it
// has not read.
type Configurer interface {
	Configure(ctx *Context) ErrorList
}

// Converter converts one object to another version, such as "example.com/v2".
// An error refuses the conversion of all objects of the call.
type Converter interface {
	Convert(ctx *Context, object []byte, to string) (converted []byte, err error)
}

// Connecter answers a request to a subresource of the module's own, with a
// value to be encoded or, as []byte, in JSON. An error refuses the request as
// in [ValidatingAdmitter]. The subresource is in [Context.Request], the body in
// [Context.Options].
type Connecter[T any] interface {
	Connect(ctx *Context, parent *T) (response any, err error)
}
