//! What every platform must keep, as functions that a test calls with samples of that platform.
