//! Types of the VirtualMachinePool APIs that vmpool serves, generated from their CRDs
