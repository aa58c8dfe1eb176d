//! A Chromium without a window, for the checks of pages: the dashboard of the plugin, and the documentation.
//!
//! This program controls the browser over the `DevTools` protocol, through two pipes. No port is opened. A
//! [`BrowserTab`] shows a page as a user sees it, with a size and a color scheme, and reads what a screen
//! reader gets. CI has no browser, so it runs none of these checks.

mod devtools;
mod process;
mod server;
mod tab;

pub(crate) use self::process::Chromium;
pub(crate) use self::server::{PageResponse, serve_pages};
pub(crate) use self::tab::{AccessibleElement, BrowserTab, BrowserView, ColorScheme};
