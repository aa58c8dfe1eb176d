//! Control plane, scenario language and end-to-end tests of vmpool
