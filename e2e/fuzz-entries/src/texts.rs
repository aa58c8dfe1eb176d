//! Texts in annotations and fields.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::hint::black_box;
use std::time::Duration;

use jiff::Timestamp;
use serde_json::Value;
use vmpool_api::{GoDuration, Quantity, Share};
use vmpool_engine::limits::{MESSAGE, NAME, clip_name, nesting_depth, shorten_message};
use vmpool_engine::protection::{self, CLAIM, Claim, Protection, RESTARTING, UNTIL};
use vmpool_engine::scale_down::removal::RemovalRecord;
use vmpool_engine::scale_up::names::NameBlock;
use vmpool_instancetype::quantity::Amount;

/// Reads a removal record. Written again, it is the same.
pub fn parse_removal_record(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    let Ok(mut record) = RemovalRecord::parse(text) else { return };
    assert_eq!(
        RemovalRecord::parse(&record.to_string()).as_ref(),
        Ok(&record),
        "a written record reads back"
    );
    let requests: Vec<_> = record.requests().into_iter().cloned().collect();
    for (index, request) in requests.iter().enumerate() {
        if index % 2 == 0 {
            black_box(record.accept(request));
        } else {
            record.withdraw(request);
        }
    }
    assert_eq!(record.reserved().count(), 0, "all reservations have ended");
    assert_eq!(
        RemovalRecord::parse(&record.to_string()).as_ref(),
        Ok(&record),
        "a changed record reads back"
    );
    let gone = record.may_leave().map(|target| target.uid.clone()).collect();
    record.prune(&gone);
}

/// Reads a text as each kind of setting.
pub fn parse_settings(input: &[u8]) {
    let Ok(text) = std::str::from_utf8(input) else { return };
    if let Ok(duration) = text.parse::<GoDuration>() {
        assert_eq!(duration.to_string().parse(), Ok(duration), "a written duration reads back");
    }
    let quantity = Quantity::new(text);
    if let Ok(bytes) = quantity.bytes() {
        assert_eq!(Quantity::from_bytes(bytes).bytes(), Ok(bytes), "a written quantity reads back");
    }
    assert!(matches!(quantity.compare(&quantity), Ok(Ordering::Equal) | Err(_)), "a quantity equals itself");
    if let Ok(amount) = Amount::parse(text) {
        assert_eq!(amount.compare(&amount), Ordering::Equal, "an amount equals itself");
        black_box((amount.whole(), amount.lowered_by(50)));
    }
    if let Ok(share) = text.parse::<Share>() {
        assert_eq!(share.to_string().parse(), Ok(share), "a written share reads back");
    }
    if let Ok(value) = serde_json::from_str::<Value>(text) {
        drop(black_box(Share::from_json(&value)));
    }
    if let Ok(block) = text.parse::<NameBlock>() {
        assert_eq!(block.to_string(), text, "a block has one spelling");
    }
    read_protection(text);
    black_box((protection::parse_maximum(text).is_ok(), Claim::check_id(text).is_ok(), nesting_depth(text)));
    assert!(clip_name(text).len() <= NAME + 4 && shorten_message(text.to_owned()).len() <= MESSAGE);
}

fn read_protection(text: &str) {
    let annotations: BTreeMap<String, String> =
        [UNTIL, CLAIM, RESTARTING].map(|key| (key.to_owned(), text.to_owned())).into();
    let Some(protection) = Protection::read(Some(&annotations)) else { return };
    for now in [Timestamp::UNIX_EPOCH, Timestamp::MAX] {
        black_box(protection.protects(now));
        if let Some(valid) = protection.shortened(now, Duration::from_hours(24)) {
            let written = protection::timestamp_text(valid);
            assert!(written.parse::<Timestamp>().is_ok(), "{written} is no time");
        }
    }
}
