//! The hooks, a trait each.

use crate::context::Context;
use crate::error::{FieldError, Refusal};
use crate::json::Json;
use crate::object::{Object, View};
use alloc::string::String;
use alloc::vec::Vec;

/// Makes the strategy from the settings, once, before any other hook is
/// called. Errors refuse the settings. Without it a strategy is its default, and
/// has no settings: any are refused.
pub trait Configure: Sized {
    /// A type of [`crate::typed!`], whose paths are the settings that there are,
    /// or `()` for none. [`crate::Lenient`] of one passes over what is unknown.
    type Settings: crate::Settings;

    /// Makes the strategy.
    fn configure(ctx: &Context, settings: Self::Settings) -> Result<Self, Vec<FieldError>>;
}

/// Fills in what the client left out. It must be idempotent and look at
/// nothing but the object.
pub trait Default {
    /// Fills in.
    fn default(&self, ctx: &Context, obj: &mut Object);
}

/// Brings a new object to its initial state.
pub trait PrepareForCreate {
    /// Prepares.
    fn prepare_for_create(&self, ctx: &Context, obj: &mut Object);
}

/// Says what is wrong with a new object.
pub trait ValidateCreate {
    /// Validates.
    fn validate_create(&self, ctx: &Context, obj: &View) -> Vec<FieldError>;
}

/// Keeps what an update must not change.
pub trait PrepareForUpdate {
    /// Prepares.
    fn prepare_for_update(&self, ctx: &Context, obj: &mut Object, old: &View);
}

/// Says what is wrong with an update, the new object as a whole included.
pub trait ValidateUpdate {
    /// Validates.
    fn validate_update(&self, ctx: &Context, obj: &View, old: &View) -> Vec<FieldError>;
}

/// Says why an object must not be deleted.
pub trait ValidateDelete {
    /// Validates.
    fn validate_delete(&self, ctx: &Context, obj: &View) -> Vec<FieldError>;
}

/// Brings a valid object to the form in which it is stored. It cannot refuse.
pub trait Canonicalize {
    /// Canonicalizes.
    fn canonicalize(&self, ctx: &Context, obj: &mut Object);
}

/// [`PrepareForUpdate`] for writes to the status subresource.
pub trait StatusPrepare {
    /// Prepares.
    fn status_prepare(&self, ctx: &Context, obj: &mut Object, old: &View);
}

/// [`ValidateUpdate`] for writes to the status subresource.
pub trait StatusValidate {
    /// Validates.
    fn status_validate(&self, ctx: &Context, obj: &View, old: &View) -> Vec<FieldError>;
}

/// Warns the client of a valid new object.
pub trait WarningsOnCreate {
    /// Warns.
    fn warnings_on_create(&self, ctx: &Context, obj: &View) -> Vec<String>;
}

/// Warns the client of a valid update.
pub trait WarningsOnUpdate {
    /// Warns.
    fn warnings_on_update(&self, ctx: &Context, obj: &View, old: &View) -> Vec<String>;
}

/// Converts one object to another version, such as example.com/v2. A refusal
/// is of all objects of the call.
pub trait Convert {
    /// Returns the JSON of the converted object.
    fn convert(&self, ctx: &Context, object: Json, to: &str) -> Result<String, Refusal>;
}

/// Answers a request to a subresource of the module's own. Which it is, is in
/// [`Context::request`]; its body is in [`Context::options`].
pub trait Connect {
    /// Returns the JSON of the response.
    fn connect(&self, ctx: &Context, parent: &View) -> Result<String, Refusal>;
}

/// Mutating admission. obj is absent on DELETE, and old on CREATE.
pub trait AdmitMutate {
    /// Admits.
    fn admit_mutate(&self, ctx: &Context, obj: Option<&mut Object>, old: Option<&View>) -> Result<(), Refusal>;
}

/// Validating admission. obj is absent on DELETE, and old on CREATE.
pub trait AdmitValidate {
    /// Admits.
    fn admit_validate(&self, ctx: &Context, obj: Option<&View>, old: Option<&View>) -> Result<(), Refusal>;
}
