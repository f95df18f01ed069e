//! JSON values as they are spelled, and how to spell them.

use alloc::borrow::Cow;
use alloc::string::String;
use alloc::vec::Vec;

/// A JSON value in a text. Reading one copies nothing but strings with escapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Json<'a>(&'a str);

impl<'a> Json<'a> {
    /// The value that a text is, without white space around it. The text has
    /// to be JSON.
    pub fn new(text: &'a str) -> Json<'a> {
        Json(text.trim())
    }

    /// The value as it is spelled. That of a host is canonical: two equal
    /// values are spelled the same.
    pub fn raw(self) -> &'a str {
        self.0
    }

    fn first(self) -> u8 {
        *self.0.as_bytes().first().unwrap_or(&0)
    }

    /// Whether it is null.
    pub fn is_null(self) -> bool {
        self.first() == b'n'
    }

    /// The string, if it is one.
    pub fn text(self) -> Option<Cow<'a, str>> {
        if self.first() != b'"' || self.0.len() < 2 {
            return None;
        }
        let inside = &self.0[1..self.0.len() - 1];
        match inside.bytes().position(|c| c == b'\\') {
            None => Some(Cow::Borrowed(inside)),
            Some(at) => Some(Cow::Owned(unescape(inside, at))),
        }
    }

    /// The integer of 64 bits, if it is one.
    pub fn int(self) -> Option<i64> {
        match self.first() {
            b'-' | b'0'..=b'9' => self.0.parse().ok(),
            _ => None,
        }
    }

    /// The number, if it is one.
    pub fn float(self) -> Option<f64> {
        match self.first() {
            b'-' | b'0'..=b'9' => self.0.parse().ok(),
            _ => None,
        }
    }

    /// The boolean, if it is one.
    pub fn boolean(self) -> Option<bool> {
        match self.first() {
            b't' => Some(true),
            b'f' => Some(false),
            _ => None,
        }
    }

    /// The elements of an array; none if it is no array.
    pub fn elements(self) -> Elements<'a> {
        Elements(Scanner::inside(self.0, b'['))
    }

    /// The members of an object, in order; none if it is no object.
    pub fn members(self) -> Members<'a> {
        Members(Scanner::inside(self.0, b'{'))
    }

    /// A member of an object.
    pub fn member(self, name: &str) -> Option<Json<'a>> {
        self.members().find(|(n, _)| n == name).map(|(_, value)| value)
    }

    /// The value at a path, as of a [`crate::View`] but without wildcards.
    ///
    /// ```
    /// # use weir::Json;
    /// let pod = Json::new(r#"{"spec":{"containers":[{"image":"a"},{"image":"b"}]}}"#);
    /// assert_eq!(pod.at("spec.containers[1].image").and_then(Json::text).as_deref(), Some("b"));
    /// ```
    ///
    /// # Panics
    ///
    /// If the path does not parse.
    pub fn at(self, path: &str) -> Option<Json<'a>> {
        if path.is_empty() {
            return Some(self).filter(|v| !v.0.is_empty());
        }
        let steps = crate::object::parse(path).unwrap_or_else(|| panic!("not a path: {}", path));
        steps.iter().try_fold(self, |v, step| step.of(v))
    }

    /// An element of an array.
    pub fn element(self, index: usize) -> Option<Json<'a>> {
        self.elements().nth(index)
    }
}

/// The elements of an array.
pub struct Elements<'a>(Scanner<'a>);

impl<'a> Iterator for Elements<'a> {
    type Item = Json<'a>;

    fn next(&mut self) -> Option<Json<'a>> {
        if !self.0.more() {
            return None;
        }
        let value = self.0.value();
        self.0.separator();
        Some(value)
    }
}

/// The members of an object.
pub struct Members<'a>(Scanner<'a>);

impl<'a> Iterator for Members<'a> {
    type Item = (Cow<'a, str>, Json<'a>);

    fn next(&mut self) -> Option<Self::Item> {
        if !self.0.more() {
            return None;
        }
        let name = self.0.value().text()?;
        self.0.separator();
        let value = self.0.value();
        self.0.separator();
        Some((name, value))
    }
}

/// Reads what is inside of an array or object.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Scanner<'a> {
    /// Begins behind the bracket that opens; at the end if it is another.
    fn inside(text: &'a str, open: u8) -> Scanner<'a> {
        let at = if text.as_bytes().first() == Some(&open) { 1 } else { text.len() };
        Scanner { text, at }
    }

    fn peek(&mut self) -> u8 {
        let bytes = self.text.as_bytes();
        while self.at < bytes.len() && matches!(bytes[self.at], b' ' | b'\t' | b'\r' | b'\n') {
            self.at += 1;
        }
        *bytes.get(self.at).unwrap_or(&0)
    }

    /// Whether a value follows.
    fn more(&mut self) -> bool {
        !matches!(self.peek(), 0 | b']' | b'}')
    }

    /// Skips a comma or colon.
    fn separator(&mut self) {
        if matches!(self.peek(), b',' | b':') {
            self.at += 1;
        }
    }

    fn value(&mut self) -> Json<'a> {
        let first = self.peek();
        let start = self.at;
        match first {
            b'"' => self.skip_string(),
            b'{' | b'[' => self.skip_nested(),
            _ => {
                let rest = &self.text.as_bytes()[start..];
                self.at += rest
                    .iter()
                    .position(|c| matches!(c, b',' | b':' | b']' | b'}' | b' ' | b'\t' | b'\r' | b'\n'))
                    .unwrap_or(rest.len());
            }
        }
        Json(&self.text[start..self.at])
    }

    fn skip_string(&mut self) {
        let bytes = self.text.as_bytes();
        let mut i = self.at + 1;
        while i < bytes.len() {
            match bytes[i] {
                b'"' => {
                    self.at = i + 1;
                    return;
                }
                b'\\' => i += 2,
                _ => i += 1,
            }
        }
        self.at = bytes.len();
    }

    fn skip_nested(&mut self) {
        let bytes = self.text.as_bytes();
        let mut depth = 0;
        while self.at < bytes.len() {
            match bytes[self.at] {
                b'"' => {
                    self.skip_string();
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.at += 1;
            if depth == 0 {
                return;
            }
        }
    }
}

/// Decodes the inside of a string that has an escape at a place.
fn unescape(text: &str, at: usize) -> String {
    let mut out = String::with_capacity(text.len());
    out.push_str(&text[..at]);
    let mut rest = text[at..].chars();
    while let Some(c) = rest.next() {
        if c != '\\' {
            out.push(c);
            continue;
        }
        match rest.next() {
            Some('b') => out.push('\u{8}'),
            Some('f') => out.push('\u{c}'),
            Some('n') => out.push('\n'),
            Some('r') => out.push('\r'),
            Some('t') => out.push('\t'),
            Some('u') => {
                let mut code = hex(&mut rest);
                let mut after = rest.clone();
                if code >> 10 == 0x36 && after.next() == Some('\\') && after.next() == Some('u') {
                    let low = hex(&mut after);
                    if low >> 10 == 0x37 {
                        code = 0x10000 + ((code & 0x3ff) << 10 | low & 0x3ff);
                        rest = after;
                    }
                }
                out.push(char::from_u32(code).unwrap_or('\u{fffd}'));
            }
            Some(c) => out.push(c),
            None => {}
        }
    }
    out
}

/// Reads four hexadecimal digits.
fn hex(rest: &mut core::str::Chars) -> u32 {
    let mut code = 0;
    for _ in 0..4 {
        code = code << 4 | rest.next().and_then(|c| c.to_digit(16)).unwrap_or(0);
    }
    code
}

/// What can be spelled in JSON.
pub trait ToJson {
    /// Appends the JSON.
    fn append_json(&self, out: &mut String);

    /// The JSON.
    fn to_json(&self) -> String {
        let mut out = String::new();
        self.append_json(&mut out);
        out
    }
}

impl ToJson for str {
    fn append_json(&self, out: &mut String) {
        out.push('"');
        let mut start = 0;
        for (i, c) in self.bytes().enumerate() {
            if c >= 0x20 && c != b'"' && c != b'\\' {
                continue;
            }
            out.push_str(&self[start..i]);
            start = i + 1;
            if c < 0x20 {
                const HEX: &[u8; 16] = b"0123456789abcdef";
                out.push_str("\\u00");
                out.push(HEX[usize::from(c >> 4)] as char);
                out.push(HEX[usize::from(c & 15)] as char);
            } else {
                out.push('\\');
                out.push(c as char);
            }
        }
        out.push_str(&self[start..]);
        out.push('"');
    }
}

impl ToJson for String {
    fn append_json(&self, out: &mut String) {
        self.as_str().append_json(out);
    }
}

impl ToJson for Cow<'_, str> {
    fn append_json(&self, out: &mut String) {
        self.as_ref().append_json(out);
    }
}

impl ToJson for bool {
    fn append_json(&self, out: &mut String) {
        out.push_str(if *self { "true" } else { "false" });
    }
}

impl ToJson for Json<'_> {
    fn append_json(&self, out: &mut String) {
        out.push_str(self.0);
    }
}

macro_rules! integers {
    ($($t:ty)*) => {$(
        impl ToJson for $t {
            fn append_json(&self, out: &mut String) {
                append_int(out, *self as i64);
            }
        }
    )*};
}
integers!(i8 i16 i32 i64 isize u8 u16 u32);

fn append_int(out: &mut String, n: i64) {
    let mut digits = [0u8; 20];
    let (mut left, mut at) = (n.unsigned_abs(), digits.len());
    loop {
        at -= 1;
        digits[at] = b'0' + (left % 10) as u8;
        left /= 10;
        if left == 0 {
            break;
        }
    }
    if n < 0 {
        out.push('-');
    }
    for d in &digits[at..] {
        out.push(*d as char);
    }
}

impl<T: ToJson> ToJson for [T] {
    fn append_json(&self, out: &mut String) {
        out.push('[');
        for (i, e) in self.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            e.append_json(out);
        }
        out.push(']');
    }
}

impl<T: ToJson> ToJson for Vec<T> {
    fn append_json(&self, out: &mut String) {
        self.as_slice().append_json(out);
    }
}

impl<T: ToJson> ToJson for Option<T> {
    fn append_json(&self, out: &mut String) {
        match self {
            Some(v) => v.append_json(out),
            None => out.push_str("null"),
        }
    }
}

impl<T: ToJson + ?Sized> ToJson for &T {
    fn append_json(&self, out: &mut String) {
        (**self).append_json(out);
    }
}

/// Builds an object of members.
///
/// ```
/// let mut out = String::new();
/// weir::json::ObjectBuilder::new(&mut out).member("a", 1).member("b", "c").end();
/// assert_eq!(out, r#"{"a":1,"b":"c"}"#);
/// ```
pub struct ObjectBuilder<'a> {
    out: &'a mut String,
    empty: bool,
}

impl<'a> ObjectBuilder<'a> {
    /// Begins an object at the end of a text.
    pub fn new(out: &'a mut String) -> Self {
        out.push('{');
        ObjectBuilder { out, empty: true }
    }

    /// Appends a member.
    pub fn member(mut self, name: &str, value: impl ToJson) -> Self {
        value.append_json(self.name(name));
        self
    }

    /// Appends a member with a text, unless it is empty.
    pub(crate) fn text_member(self, name: &str, value: &str) -> Self {
        if value.is_empty() {
            return self;
        }
        self.member(name, value)
    }

    /// Appends a member's name; its value is to follow.
    pub(crate) fn name(&mut self, name: &str) -> &mut String {
        if !self.empty {
            self.out.push(',');
        }
        self.empty = false;
        name.append_json(self.out);
        self.out.push(':');
        self.out
    }

    /// Ends the object.
    pub fn end(self) {
        self.out.push('}');
    }
}
