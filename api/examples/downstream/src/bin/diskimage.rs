//! Prints an image and a machine whose disk is cloned from it, as JSON.
//!
//! It needs no Kubernetes client: pipe the output into `kubectl apply -f -`.

use std::error::Error;

use serde_json::json;
use vmpool_api::Quantity;
use vmpool_api::diskimage::values::{Mode, SourceType};
use vmpool_api::diskimage::{VirtualMachine, VirtualMachineSpec, VmDiskImage, VmDiskImageSpec};

fn main() -> Result<(), Box<dyn Error>> {
    let image = VmDiskImageSpec {
        source_type: SourceType::Http.to_string(),
        url: Some("https://images.example.com/debian-13.qcow2".to_owned()),
        disk_size: Quantity::new("10Gi"),
        ttl_after_unreferenced: Some("24h".to_owned()),
        ..VmDiskImageSpec::default()
    };
    println!("{}", serde_json::to_string_pretty(&VmDiskImage::new("debian-13", image))?);

    // The machine itself is KubeVirt's: JSON is the shortest way to write it.
    let mut wrapper: VirtualMachineSpec = serde_json::from_value(json!({
        "vmDiskImageRef": {"name": "debian-13"},
        "virtualMachineTemplate": {"spec": {"runStrategy": "Always", "template": {"spec": {}}}},
    }))?;
    wrapper.mode = Some(Mode::FailIfNotExist.into());
    println!("{}", serde_json::to_string_pretty(&VirtualMachine::new("web", wrapper))?);
    Ok(())
}
