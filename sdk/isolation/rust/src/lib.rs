//! A guest that keeps a secret wherever it can: in a global, in an object of the
//! heap, and in memory that was grown. Its configure hook keeps that of the
//! settings. Each validateCreate warns of what it finds kept, in that order, and
//! then keeps the secret of the object, which the audit annotations prove.

use std::alloc::{alloc, Layout};
use std::sync::Mutex;
use weir::{Context, FieldError, View};

#[derive(Default)]
struct Guest;

const GROWN: usize = 96 << 10;
const LONGEST: usize = 64;
static GLOBAL: Mutex<([u8; LONGEST], usize)> = Mutex::new(([0; LONGEST], 0));
static ON_HEAP: Mutex<Option<Box<String>>> = Mutex::new(None);
static IN_GROWN: Mutex<&[u8]> = Mutex::new(&[]);

/// Stores a secret. False is that memory which was grown is not empty.
fn keep(secret: &str) -> bool {
    let mut global = GLOBAL.lock().unwrap();
    global.0[..secret.len()].copy_from_slice(secret.as_bytes());
    global.1 = secret.len();
    *ON_HEAP.lock().unwrap() = Some(Box::new(secret.to_owned()));
    unsafe {
        // Nothing initialises it: it is as the host left it.
        let grown = alloc(Layout::from_size_align(GROWN, 8).unwrap());
        let empty = (0..GROWN).step_by(LONGEST).all(|at| (grown.add(at) as *const u64).read_volatile() == 0);
        let end = grown.add(GROWN - LONGEST);
        for to in [grown, end] {
            to.copy_from_nonoverlapping(secret.as_ptr(), secret.len());
        }
        *IN_GROWN.lock().unwrap() = std::slice::from_raw_parts(end, secret.len());
        empty
    }
}

fn kept() -> [String; 3] {
    let global = GLOBAL.lock().unwrap();
    [
        String::from_utf8_lossy(&global.0[..global.1]).into(),
        ON_HEAP.lock().unwrap().as_ref().map(|s| s.as_ref().clone()).unwrap_or_default(),
        String::from_utf8_lossy(&IN_GROWN.lock().unwrap()).into(),
    ]
}

weir::typed! {
    struct Settings {
        secret: String = "secret",
    }
}

impl weir::Configure for Guest {
    type Settings = Settings;

    fn configure(_: &Context, settings: Settings) -> Result<Self, Vec<FieldError>> {
        keep(&settings.secret);
        Ok(Guest)
    }
}

impl weir::ValidateCreate for Guest {
    fn validate_create(&self, ctx: &Context, obj: &View) -> Vec<FieldError> {
        if !obj.has("spec.secret") {
            return Vec::new(); // a call that warms the module up
        }
        kept().into_iter().for_each(|secret| ctx.warn(secret));
        if !keep(&obj.text("spec.secret").unwrap_or_default()) {
            ctx.warn("memory that was grown is not empty");
        }
        for (name, secret) in ["global", "heap", "memory"].into_iter().zip(kept()) {
            ctx.annotate(name, secret);
        }
        if obj.is_true("spec.trap") {
            panic!("asked for");
        }
        Vec::new()
    }
}

weir::module! {
    strategy: Guest,
    hooks: [Configure, ValidateCreate],
    name: "isolation-rust", version: "1.0.0",
}
