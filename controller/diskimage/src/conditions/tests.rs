use vmpool_api::conditions::{image, wrapper};

use super::*;
use crate::failure::DiskImageReason;
use crate::wrapper::{WrapperImageReason, WrapperMachineReason};

#[test]
fn clients_have_constants_with_the_texts_of_all_types() {
    assert_eq!(image::ALL, ImageConditionType::TEXTS);
    assert_eq!(wrapper::ALL, WrapperConditionType::TEXTS);
}

#[test]
fn clients_have_constants_with_the_texts_of_all_reasons_of_images() {
    let mut texts: Vec<&str> = DiskImageReason::ALL.into_iter().map(DiskImageReason::as_str).collect();
    texts.extend(ImageConditionReason::TEXTS);
    assert_eq!(image::reason::ALL, texts);
}

#[test]
fn clients_have_constants_with_the_texts_of_all_reasons_of_wrappers() {
    let mut texts: Vec<&str> = WrapperImageReason::ALL.into_iter().map(WrapperImageReason::as_str).collect();
    texts.extend(WrapperMachineReason::ALL.into_iter().map(WrapperMachineReason::as_str));
    texts.extend(TemplateMatchReason::TEXTS);
    assert_eq!(wrapper::reason::ALL, texts);
}
