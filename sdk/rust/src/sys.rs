//! The imports, and in WebAssembly the memory.

/// Input slots.
pub const META: i32 = 0;
pub const OBJECT: i32 = 1;
pub const OLD_OBJECT: i32 = 2;
pub const OPTIONS: i32 = 3;
pub const SETTINGS: i32 = 4;
pub const PARAMS: i32 = 5;
pub const NAMESPACE: i32 = 6;
pub const TARGET_VERSION: i32 = 7;
/// Output slots.
pub const RESULT: i32 = 16;
pub const OBJECT_OUT: i32 = 17;
pub const PATCH: i32 = 18;
pub const MANIFEST: i32 = 19;

/// An error of imports: what is asked for is absent. Others are [`crate::Errno`].
pub const ENOENT: i32 = 2;

#[cfg(target_arch = "wasm32")]
pub use guest::{authorize, catch_panics, has, log, lookup, query, write};

#[cfg(not(target_arch = "wasm32"))]
pub use crate::testing::{authorize, has, log, lookup, query, write};

#[cfg(target_arch = "wasm32")]
mod guest {
    use super::ENOENT;
    use core::alloc::{GlobalAlloc, Layout};
    use core::cell::Cell;

    #[link(wasm_import_module = "weir.v1")]
    extern "C" {
        #[link_name = "query"]
        fn import_query(slot: i32, path: *const u8, path_len: usize, buf: *mut u8, cap: usize) -> i32;
        #[link_name = "write"]
        fn import_write(slot: i32, ptr: *const u8, len: usize) -> i32;
        #[link_name = "log"]
        fn import_log(level: i32, ptr: *const u8, len: usize) -> i32;
        // These two are imported only by a module that looks up or asks.
        #[link_name = "lookup"]
        fn import_lookup(request: *const u8, request_len: usize, buf: *mut u8, cap: usize) -> i32;
        #[link_name = "authorize"]
        fn import_authorize(request: *const u8, request_len: usize) -> i32;
    }

    /// Gives memory and takes none back, since the host does after each call.
    struct Arena {
        at: Cell<usize>,
        end: Cell<usize>,
    }

    // A guest has one thread.
    unsafe impl Sync for Arena {}

    #[global_allocator]
    static ARENA: Arena = Arena { at: Cell::new(0), end: Cell::new(0) };

    const PAGE: usize = 64 << 10;

    impl Arena {
        /// Makes sure that there is room for some bytes, and says where.
        fn reserve(&self, bytes: usize, align: usize) -> usize {
            if self.end.get() == 0 {
                extern "C" {
                    static __heap_base: u8;
                }
                self.at.set(unsafe { &__heap_base as *const u8 as usize });
                self.end.set(core::arch::wasm32::memory_size(0) * PAGE);
            }
            let at = (self.at.get() + align - 1) & !(align - 1);
            let left = self.end.get().saturating_sub(at);
            if bytes > left {
                let pages = (bytes - left + PAGE - 1) / PAGE;
                if core::arch::wasm32::memory_grow(0, pages) == usize::MAX {
                    core::arch::wasm32::unreachable() // the host says that it was the memory
                }
                self.end.set(self.end.get() + pages * PAGE);
            }
            at
        }
    }

    unsafe impl GlobalAlloc for Arena {
        unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
            let at = self.reserve(layout.size(), layout.align());
            self.at.set(at + layout.size());
            at as *mut u8
        }

        unsafe fn dealloc(&self, _: *mut u8, _: Layout) {}

        unsafe fn realloc(&self, ptr: *mut u8, layout: Layout, size: usize) -> *mut u8 {
            if ptr as usize + layout.size() == self.at.get() {
                // The last one grows where it is.
                let at = self.reserve(size.saturating_sub(layout.size()), 1);
                self.at.set(at - layout.size() + size);
                return ptr;
            }
            if size <= layout.size() {
                return ptr;
            }
            let bigger = self.alloc(Layout::from_size_align_unchecked(size, layout.align()));
            core::ptr::copy_nonoverlapping(ptr, bigger, layout.size());
            bigger
        }
    }

    /// Follows the buffer rule with what is left of the arena.
    #[inline(always)]
    fn answer(ask: impl Fn(*mut u8, usize) -> i32) -> Result<&'static str, i32> {
        let at = ARENA.reserve(1 << 10, 1);
        let cap = ARENA.end.get() - at;
        let mut n = ask(at as *mut u8, cap);
        if n > cap as i32 {
            ARENA.reserve(n as usize, 1);
            n = ask(at as *mut u8, n as usize);
        }
        if n < 0 {
            return Err(-n);
        }
        ARENA.at.set(at + n as usize);
        // What a host answers is UTF-8.
        Ok(unsafe { core::str::from_utf8_unchecked(core::slice::from_raw_parts(at as *const u8, n as usize)) })
    }

    /// The JSON at a path, or the errno. None is that it is absent.
    pub fn query(slot: i32, path: &str) -> Result<Option<&'static str>, i32> {
        match answer(|buf, cap| unsafe { import_query(slot, path.as_ptr(), path.len(), buf, cap) }) {
            Err(ENOENT) => Ok(None),
            found => found.map(Some),
        }
    }

    /// The answer to a look-up, or the errno.
    pub fn lookup(request: &str) -> Result<&'static str, i32> {
        answer(|buf, cap| unsafe { import_lookup(request.as_ptr(), request.len(), buf, cap) })
    }

    /// Whether something is allowed, or the errno.
    pub fn authorize(request: &str) -> Result<bool, i32> {
        match unsafe { import_authorize(request.as_ptr(), request.len()) } {
            n if n < 0 => Err(-n),
            n => Ok(n == 1),
        }
    }

    /// Whether there is a value at a path, or the errno.
    pub fn has(slot: i32, path: &str) -> Result<bool, i32> {
        match unsafe { import_query(slot, path.as_ptr(), path.len(), core::ptr::null_mut(), 0) } {
            n if n == -ENOENT => Ok(false),
            n if n < 0 => Err(-n),
            _ => Ok(true),
        }
    }

    /// Replaces an output slot. False is that it was refused.
    pub fn write(slot: i32, text: &str) -> bool {
        unsafe { import_write(slot, text.as_ptr(), text.len()) == text.len() as i32 }
    }

    pub fn log(level: i32, line: &str) {
        unsafe { import_log(level, line.as_ptr(), line.len()) };
    }

    /// Logs a panic, which then traps.
    fn log_panic(info: &dyn core::fmt::Display) {
        log(3, &alloc::format!("{}", info));
    }

    /// Sees to it that a panic is logged.
    #[cfg(not(feature = "no_std"))]
    pub fn catch_panics() {
        std::panic::set_hook(alloc::boxed::Box::new(|info| log_panic(info)));
    }

    #[cfg(feature = "no_std")]
    pub fn catch_panics() {}

    #[cfg(feature = "no_std")]
    #[panic_handler]
    fn panicked(info: &core::panic::PanicInfo) -> ! {
        log_panic(info);
        core::arch::wasm32::unreachable()
    }
}
