//! Opens an address in the user's browser.

use std::ffi::OsString;

use crate::environment;
use crate::process;

/// Asks the desktop to open an address, and does not wait for the browser. `false`: there is no desktop, or no program
/// to ask.
pub fn open_in_browser(url: &str) -> bool {
    let env = environment::inherited();
    let has = |name| environment::value(&env, name).is_some_and(|value| !value.is_empty());
    // Without a display xdg-open would start a browser inside the terminal.
    let program = match cfg!(target_os = "macos") {
        true => "open",
        false if has("DISPLAY") || has("WAYLAND_DISPLAY") => "xdg-open",
        false => return false,
    };
    process::launch(program, &[OsString::from(url)], &env).is_ok()
}
