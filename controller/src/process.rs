//! The process: options, standby, leader and shutdown, and the removal of finalizers before an
//! uninstallation.

pub mod options;
pub(crate) mod permitted;
pub(crate) mod platforms;
pub(crate) mod run;
pub(crate) mod uninstall;
