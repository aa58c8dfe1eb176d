//! Plays the virtual machine and disk controllers of the platform, for tests and demos
