//! What a module exports.

use crate::context::Context;
use crate::json::ObjectBuilder;
use crate::object::{Object, View};
use crate::settings::Settings;
use crate::sys;
use alloc::string::String;
use alloc::vec::Vec;

/// Names this SDK in manifests.
pub const SDK: &str = "weir-rust/1";

/// What a module says of itself.
#[derive(Clone, Copy, Debug, Default)]
pub struct Info {
    /// Name of the module; required.
    pub name: &'static str,
    /// By habit semver.
    pub version: &'static str,
    /// Group that it is written for; empty means any.
    pub group: &'static str,
    /// Resource that it is written for; empty means any.
    pub resource: &'static str,
    /// Kind that it is written for; empty means any.
    pub kind: &'static str,
    /// What it needs to be granted: `lookup:configmaps`,
    /// `lookup:deployments.apps`, `authorize`.
    pub capabilities: &'static [&'static str],
}

/// What a module is asked to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
#[repr(i32)]
pub enum Op {
    Configure = 1,
    Default = 2,
    PrepareForCreate = 3,
    ValidateCreate = 4,
    PrepareForUpdate = 5,
    ValidateUpdate = 6,
    ValidateDelete = 7,
    Canonicalize = 8,
    StatusPrepare = 9,
    StatusValidate = 10,
    WarningsOnCreate = 11,
    WarningsOnUpdate = 12,
    Convert = 13,
    Connect = 14,
    AdmitMutate = 15,
    AdmitValidate = 16,
}

/// Names of ops in a manifest, by their numbers.
const NAMES: [&str; 17] = [
    "",
    "configure",
    "default",
    "prepareForCreate",
    "validateCreate",
    "prepareForUpdate",
    "validateUpdate",
    "validateDelete",
    "canonicalize",
    "statusPrepare",
    "statusValidate",
    "warningsOnCreate",
    "warningsOnUpdate",
    "convert",
    "connect",
    "admitMutate",
    "admitValidate",
];

/// The hooks of a module; [`crate::module!`] makes them.
pub struct Hooks<S> {
    info: Info,
    configure: fn(&Context) -> Option<S>,
    run: [Option<fn(&S, &Context)>; NAMES.len()],
}

impl<S: core::default::Default> Hooks<S> {
    #[doc(hidden)]
    pub fn new(info: Info) -> Self {
        // Without the hook there are no settings.
        let configure = |ctx: &Context| {
            let none: Result<(), _> = Settings::from_settings(ctx);
            if let Err(errors) = none {
                ctx.refuse(errors);
            }
            None
        };
        Hooks { info, configure, run: [None; NAMES.len()] }
    }

    #[doc(hidden)]
    pub fn add<H: private::Hook<S>>(&mut self) {
        H::add(self);
    }

    fn handles(&self, op: usize) -> bool {
        op == Op::Configure as usize || matches!(self.run.get(op), Some(Some(_)))
    }

    /// Writes the manifest and returns the status.
    pub fn describe(&self) -> i32 {
        #[cfg(target_arch = "wasm32")]
        sys::catch_panics();
        let hooks: Vec<&str> = (0..NAMES.len()).filter(|op| self.handles(*op)).map(|op| NAMES[op]).collect();
        let mut out = String::new();
        let mut o = ObjectBuilder::new(&mut out);
        let info = &self.info;
        for (name, value) in [
            ("name", info.name),
            ("version", info.version),
            ("group", info.group),
            ("resource", info.resource),
            ("kind", info.kind),
            ("sdk", SDK),
        ] {
            o = o.text_member(name, value);
        }
        if !info.capabilities.is_empty() {
            o = o.member("capabilities", info.capabilities);
        }
        o.member("hooks", hooks).end();
        if sys::write(sys::MANIFEST, &out) {
            0
        } else {
            2
        }
    }

    /// Runs a hook and returns the status. The strategy is what configuring
    /// made of it.
    pub fn invoke(&self, strategy: &mut S, op: i32) -> i32 {
        let ctx = Context::default();
        match (op, self.run.get(op as usize)) {
            (1, _) => {
                if let Some(made) = (self.configure)(&ctx) {
                    *strategy = made;
                }
            }
            (_, Some(Some(run))) => run(strategy, &ctx),
            _ => return 1,
        }
        ctx.finish()
    }
}

/// What [`crate::module!`] needs.
#[allow(missing_docs)]
pub mod private {
    use super::*;
    use crate::hooks;
    pub use crate::typed::{read_member, write_member};
    pub use alloc::string::String;
    use core::cell::UnsafeCell;

    /// The strategy of a guest, between calls.
    pub struct State<S>(UnsafeCell<Option<S>>);

    // A guest has one thread, and one call at a time.
    unsafe impl<S> Sync for State<S> {}

    impl<S: core::default::Default> State<S> {
        pub const fn new() -> Self {
            State(UnsafeCell::new(None))
        }

        /// Runs a hook. It must not be called while it runs.
        pub fn invoke(&self, hooks: &Hooks<S>, op: i32) -> i32 {
            let strategy = unsafe { &mut *self.0.get() };
            hooks.invoke(strategy.get_or_insert_with(S::default), op)
        }
    }

    /// Adds a hook that a strategy implements.
    pub trait Hook<S> {
        fn add(hooks: &mut super::Hooks<S>);
    }

    pub struct Configure;

    impl<S: hooks::Configure> Hook<S> for Configure {
        fn add(hooks: &mut super::Hooks<S>) {
            hooks.configure = |ctx| match Settings::from_settings(ctx).and_then(|settings| S::configure(ctx, settings)) {
                Ok(strategy) => Some(strategy),
                Err(errors) => {
                    ctx.refuse(errors);
                    None
                }
            };
        }
    }

    /// A view of a slot; None if it is absent.
    fn present(ctx: &Context, slot: i32) -> Option<View<'_>> {
        Some(View::new(ctx, slot)).filter(|v| v.has(""))
    }

    macro_rules! hook {
        ($($name:ident |$s:ident, $ctx:ident, $obj:ident, $old:ident| $run:expr;)*) => {$(
            pub struct $name;

            impl<S: hooks::$name> Hook<S> for $name {
                fn add(hooks: &mut super::Hooks<S>) {
                    hooks.run[Op::$name as usize] = Some(|$s, $ctx| {
                        let ($obj, $old) = (View::new($ctx, sys::OBJECT), View::new($ctx, sys::OLD_OBJECT));
                        let _ = ($obj, $old);
                        $run
                    });
                }
            }
        )*};
    }

    /// Runs what may change the object.
    fn change<'a>(ctx: &'a Context, f: impl FnOnce(&mut Object<'a>)) {
        let mut obj = Object::new(ctx);
        f(&mut obj);
        obj.finish();
    }

    /// Refuses if there are errors.
    fn judge(ctx: &Context, errors: Vec<crate::FieldError>) {
        if !errors.is_empty() {
            ctx.refuse(errors);
        }
    }

    fn warn(ctx: &Context, warnings: Vec<String>) {
        warnings.into_iter().for_each(|w| ctx.warn(w));
    }

    /// Answers with a text, or refuses.
    fn respond(ctx: &Context, response: Result<String, crate::Refusal>) {
        match response {
            Ok(text) => ctx.write(sys::OBJECT_OUT, &text),
            Err(refusal) => ctx.refuse(refusal),
        }
    }

    hook! {
        Default |s, ctx, obj, old| change(ctx, |o| s.default(ctx, o));
        PrepareForCreate |s, ctx, obj, old| change(ctx, |o| s.prepare_for_create(ctx, o));
        ValidateCreate |s, ctx, obj, old| judge(ctx, s.validate_create(ctx, &obj));
        PrepareForUpdate |s, ctx, obj, old| change(ctx, |o| s.prepare_for_update(ctx, o, &old));
        ValidateUpdate |s, ctx, obj, old| judge(ctx, s.validate_update(ctx, &obj, &old));
        ValidateDelete |s, ctx, obj, old| judge(ctx, s.validate_delete(ctx, &old));
        Canonicalize |s, ctx, obj, old| change(ctx, |o| s.canonicalize(ctx, o));
        StatusPrepare |s, ctx, obj, old| change(ctx, |o| s.status_prepare(ctx, o, &old));
        StatusValidate |s, ctx, obj, old| judge(ctx, s.status_validate(ctx, &obj, &old));
        WarningsOnCreate |s, ctx, obj, old| warn(ctx, s.warnings_on_create(ctx, &obj));
        WarningsOnUpdate |s, ctx, obj, old| warn(ctx, s.warnings_on_update(ctx, &obj, &old));
        Convert |s, ctx, obj, old| convert(s, ctx);
        Connect |s, ctx, obj, old| respond(ctx, s.connect(ctx, &obj));
        AdmitMutate |s, ctx, obj, old| {
            let was = present(ctx, sys::OLD_OBJECT);
            let mut changed = present(ctx, sys::OBJECT).map(|_| Object::new(ctx));
            if let Err(refusal) = s.admit_mutate(ctx, changed.as_mut(), was.as_ref()) {
                ctx.refuse(refusal);
            }
            if let Some(obj) = changed {
                obj.finish();
            }
        };
        AdmitValidate |s, ctx, obj, old| {
            let (is, was) = (present(ctx, sys::OBJECT), present(ctx, sys::OLD_OBJECT));
            if let Err(refusal) = s.admit_validate(ctx, is.as_ref(), was.as_ref()) {
                ctx.refuse(refusal);
            }
        };
    }

    fn convert<S: hooks::Convert>(s: &S, ctx: &Context) {
        let to = match View::new(ctx, sys::TARGET_VERSION).text("") {
            Some(to) => to,
            None => return ctx.fail("convert without a target version"),
        };
        let mut out = String::from("[");
        let objects = View::new(ctx, sys::OBJECT).get("");
        for object in objects.iter().flat_map(|list| list.elements()) {
            match s.convert(ctx, object, &to) {
                Ok(text) => {
                    if out.len() > 1 {
                        out.push(',');
                    }
                    out.push_str(&text);
                }
                Err(refusal) => return ctx.refuse(refusal),
            }
            if ctx.refused() {
                return;
            }
        }
        out.push(']');
        ctx.write(sys::OBJECT_OUT, &out);
    }
}

/// Makes a strategy the module: its hooks, which the strategy has to
/// implement, and what the module says of itself, the members of [`Info`]. It
/// defines `weir_hooks()`, for [`crate::testing`], and in WebAssembly the
/// exports.
///
/// ```
/// #[derive(Default)]
/// struct Strategy;
/// weir::module! { strategy: Strategy, hooks: [], name: "nothing", version: "1.0.0" }
/// # fn main() {}
/// ```
#[macro_export]
macro_rules! module {
    (strategy: $strategy:ty, hooks: [$($hook:ident),* $(,)?], $($field:ident: $value:expr),* $(,)?) => {
        /// The hooks of this module.
        #[allow(dead_code)]
        pub(crate) fn weir_hooks() -> $crate::Hooks<$strategy> {
            #[allow(unused_mut)]
            let mut hooks = $crate::Hooks::new($crate::Info { $($field: $value,)* ..::core::default::Default::default() });
            $(hooks.add::<$crate::private::$hook>();)*
            hooks
        }

        #[cfg(target_arch = "wasm32")]
        const _: () = {
            static STATE: $crate::private::State<$strategy> = $crate::private::State::new();

            #[no_mangle]
            pub extern "C" fn weir_abi_v1() {}

            #[no_mangle]
            pub extern "C" fn weir_describe() -> i32 {
                weir_hooks().describe()
            }

            #[no_mangle]
            pub extern "C" fn weir_invoke(op: i32) -> i32 {
                STATE.invoke(&weir_hooks(), op)
            }
        };
    };
}
