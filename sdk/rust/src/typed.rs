//! Types of an author's, read and written by path.

use crate::context::Context;
use crate::error::FieldError;
use crate::json::{Json, ToJson};
use crate::object::{Object, View};
use crate::sys;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// What can be read from JSON. Absent and null are the default.
pub trait FromJson: core::default::Default + PartialEq {
    /// What it is called: "an integer".
    const TYPE: &'static str;

    /// What a value has to be: "an array of integers".
    fn expected() -> String {
        Self::TYPE.into()
    }

    /// The value; None if it is of another type.
    fn from_json(v: Json) -> Option<Self>;

    /// Whether a value that was changed to this one is to be deleted.
    fn is_absent(&self) -> bool {
        false
    }
}

impl FromJson for String {
    const TYPE: &'static str = "a string";

    fn from_json(v: Json) -> Option<Self> {
        v.text().map(|s| s.into_owned())
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

impl FromJson for bool {
    const TYPE: &'static str = "a boolean";

    fn from_json(v: Json) -> Option<Self> {
        v.boolean()
    }
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl FromJson for $t {
            const TYPE: &'static str = "an integer";

            fn from_json(v: Json) -> Option<Self> {
                use core::convert::TryFrom;
                <$t>::try_from(v.int()?).ok()
            }
        }
    )*};
}
integers!(i8 i16 i32 i64 isize u8 u16 u32);

impl<T: FromJson> FromJson for Option<T> {
    const TYPE: &'static str = T::TYPE;

    fn expected() -> String {
        T::expected()
    }

    fn from_json(v: Json) -> Option<Self> {
        T::from_json(v).map(Some)
    }

    fn is_absent(&self) -> bool {
        self.is_none()
    }
}

impl<T: FromJson> FromJson for Vec<T> {
    const TYPE: &'static str = "an array";

    fn expected() -> String {
        let each = T::TYPE.split(' ').last().unwrap_or_default(); // without its article
        format!("an array of {}s", each)
    }

    fn from_json(v: Json) -> Option<Self> {
        if !v.raw().starts_with('[') {
            return None;
        }
        v.elements().map(T::from_json).collect()
    }

    fn is_absent(&self) -> bool {
        self.is_empty()
    }
}

/// Reads and writes the members of a type; [`crate::typed!`] implements it.
pub trait Typed: core::default::Default {
    /// The paths of all members, as for [`crate::Lookup::fields`].
    const PATHS: &'static [&'static str];

    #[doc(hidden)]
    fn read_from(&mut self, get: &dyn Fn(&str) -> Option<String>, wrong: &mut dyn FnMut(&str, &str));

    #[doc(hidden)]
    fn write_to(&self, to: &mut Object);

    /// The members of a document. What is absent or null there is as by
    /// default. None is that a value is of another type: if the document is
    /// the object, it is refused for it, else the hook fails.
    fn read(from: &View) -> Option<Self> {
        let mut this = Self::default();
        let mut fits = true;
        this.read_from(&|path| from.get(path).map(|v| v.raw().into()), &mut |path, kind| {
            fits = false;
            from.wrong_type(path, kind);
        });
        Some(this).filter(|_| fits)
    }

    /// The members of a JSON value, as an item that was looked up. None is that
    /// one is of another type.
    fn of(v: Json) -> Option<Self> {
        let mut this = Self::default();
        let mut fits = true;
        this.read_from(&|path| v.at(path).map(|v| v.raw().into()), &mut |_, _| fits = false);
        Some(this).filter(|_| fits)
    }

    /// Sets what is not as it is in this, in which an absent value is the
    /// default of its type. What became empty or None is deleted; paths of lists
    /// (`[*]`) are left alone.
    fn write(&self, to: &mut Object) {
        self.write_to(to);
    }
}

#[doc(hidden)]
pub fn read_member<T: FromJson>(to: &mut T, path: &str, get: &dyn Fn(&str) -> Option<String>, wrong: &mut dyn FnMut(&str, &str)) {
    if let Some(text) = get(path) {
        let v = Json::new(&text);
        if v.is_null() {
            return;
        }
        match T::from_json(v) {
            Some(value) => *to = value,
            None => wrong(path, &T::expected()),
        }
    }
}

#[doc(hidden)]
pub fn write_member<T: FromJson + ToJson>(from: &T, path: &str, to: &mut Object) {
    if path.contains("[*]") {
        return;
    }
    let was = to.get(path).and_then(T::from_json).unwrap_or_default();
    if *from == was {
        return;
    }
    if from.is_absent() {
        to.delete(path);
    } else {
        to.set(path, from);
    }
}

impl View<'_> {
    /// Says that the value at a path is of another type.
    fn wrong_type(&self, path: &str, kind: &str) {
        let ctx: &Context = self.ctx;
        if self.slot == sys::OBJECT {
            let detail = format!("must be {}", kind);
            ctx.refuse(FieldError::type_invalid(path, self.get(path), detail));
        } else {
            ctx.fail(format!("{} {}: not {}", self.name(), path, kind));
        }
    }
}

impl Typed for () {
    const PATHS: &'static [&'static str] = &[];

    fn read_from(&mut self, _: &dyn Fn(&str) -> Option<String>, _: &mut dyn FnMut(&str, &str)) {}

    fn write_to(&self, _: &mut Object) {}
}

/// Makes a type whose members are read from paths of a document, and written to
/// them: [`Typed`]. Members are strings, booleans, integers, and `Option` and
/// `Vec` of those.
///
/// ```
/// use weir::{Context, Object, Typed};
///
/// weir::typed! {
///     /// What is read of a quote.
///     pub struct Quote {
///         /// Who said it.
///         pub author: String = "spec.author",
///         pub copies: Option<i64> = "spec.copies",
///         pub tags: Vec<String> = "spec.tags[*].name",
///     }
/// }
///
/// #[derive(Default)]
/// struct Quotes;
///
/// impl weir::Default for Quotes {
///     fn default(&self, _: &Context, obj: &mut Object) {
///         if let Some(mut quote) = Quote::read(obj) {
///             quote.copies = quote.copies.or(Some(1));
///             quote.write(obj);
///         }
///     }
/// }
/// # weir::module! { strategy: Quotes, hooks: [Default], name: "quotes", version: "1.0.0" }
/// # fn main() {
/// # use weir::testing::{run, Call};
/// # let outcome = run(weir_hooks(), weir::Op::Default, Call { object: r#"{"spec":{"author":"jane"}}"#, ..Call::default() });
/// # assert_eq!(outcome.patch, r#"[{"op":"add","path":"/spec/copies","value":1}]"#);
/// # }
/// ```
#[macro_export]
macro_rules! typed {
    ($(#[$meta:meta])* $vis:vis struct $name:ident {
        $($(#[$member_meta:meta])* $member_vis:vis $member:ident: $type:ty = $path:literal),* $(,)?
    }) => {
        $(#[$meta])*
        #[derive(Clone, Debug, Default, PartialEq)]
        $vis struct $name {
            $($(#[$member_meta])* $member_vis $member: $type,)*
        }

        impl $crate::Typed for $name {
            const PATHS: &'static [&'static str] = &[$($path),*];

            fn read_from(
                &mut self,
                get: &dyn Fn(&str) -> Option<$crate::private::String>,
                wrong: &mut dyn FnMut(&str, &str),
            ) {
                $($crate::private::read_member(&mut self.$member, $path, get, wrong);)*
            }

            fn write_to(&self, to: &mut $crate::Object) {
                $($crate::private::write_member(&self.$member, $path, to);)*
            }
        }
    };
}
