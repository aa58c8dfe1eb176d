//! Decodes the review around the two objects. Duplicate fields are an error, and unused fields are skipped.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::Value;

use super::request::ReviewRequest;
use crate::bounded_json::Fields;

/// A decoded review.
#[derive(Debug, Default)]
pub(super) struct ReviewEnvelope {
    pub(super) api_version: String,
    pub(super) kind: String,
    pub(super) request: Option<ReviewRequest>,
}

/// Decodes a [`ReviewEnvelope`], with these fields of `object` and `oldObject`.
pub(super) struct ReviewSeed<'a>(pub(super) [Fields<'a>; 2]);

/// Decodes the request of a review, which may be missing.
struct RequestSeed<'a>([Fields<'a>; 2]);

impl<'de> DeserializeSeed<'de> for ReviewSeed<'_> {
    type Value = ReviewEnvelope;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<ReviewEnvelope, D::Error> {
        json.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ReviewSeed<'_> {
    type Value = ReviewEnvelope;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an AdmissionReview")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ReviewEnvelope, A::Error> {
        let mut review = ReviewEnvelope::default();
        let mut seen = DecodedFields::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "apiVersion" => review.api_version = seen.once("apiVersion", &mut map)?,
                "kind" => review.kind = seen.once("kind", &mut map)?,
                "request" => {
                    seen.add("request")?;
                    review.request = map.next_value_seed(RequestSeed(self.0.clone()))?;
                }
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(review)
    }
}

impl<'de> DeserializeSeed<'de> for RequestSeed<'_> {
    type Value = Option<ReviewRequest>;

    fn deserialize<D: Deserializer<'de>>(self, json: D) -> Result<Option<ReviewRequest>, D::Error> {
        json.deserialize_option(self)
    }
}

impl<'de> Visitor<'de> for RequestSeed<'_> {
    type Value = Option<ReviewRequest>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the request of an AdmissionReview")
    }

    fn visit_none<E>(self) -> Result<Option<ReviewRequest>, E> {
        Ok(None)
    }

    fn visit_unit<E>(self) -> Result<Option<ReviewRequest>, E> {
        Ok(None)
    }

    fn visit_some<D: Deserializer<'de>>(self, json: D) -> Result<Option<ReviewRequest>, D::Error> {
        json.deserialize_map(self)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Option<ReviewRequest>, A::Error> {
        let Self([object, old_object]) = self;
        let mut request = ReviewRequest::default();
        let mut seen = DecodedFields::default();
        while let Some(key) = map.next_key::<String>()? {
            match key.as_str() {
                "uid" => request.uid = seen.once("uid", &mut map)?,
                "operation" => request.operation = seen.once("operation", &mut map)?,
                "namespace" => request.namespace = seen.once("namespace", &mut map)?,
                "name" => request.name = seen.once("name", &mut map)?,
                "subResource" => request.sub_resource = seen.once("subResource", &mut map)?,
                "userInfo" => request.user_info = seen.once("userInfo", &mut map)?,
                "dryRun" => {
                    request.dry_run = seen.once::<Option<bool>, _>("dryRun", &mut map)?.unwrap_or_default();
                }
                "object" => request.object = seen.object("object", &mut map, &object)?,
                "oldObject" => request.old_object = seen.object("oldObject", &mut map, &old_object)?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Some(request))
    }
}

/// The fields that were decoded.
#[derive(Default)]
struct DecodedFields(Vec<&'static str>);

impl DecodedFields {
    fn add<E: Error>(&mut self, field: &'static str) -> Result<(), E> {
        if self.0.contains(&field) {
            return Err(E::duplicate_field(field));
        }
        self.0.push(field);
        Ok(())
    }

    fn once<'de, T, A>(&mut self, field: &'static str, map: &mut A) -> Result<T, A::Error>
    where
        T: serde::Deserialize<'de>,
        A: MapAccess<'de>,
    {
        self.add(field)?;
        map.next_value()
    }

    fn object<'de, A: MapAccess<'de>>(
        &mut self,
        field: &'static str,
        map: &mut A,
        fields: &Fields<'_>,
    ) -> Result<Value, A::Error> {
        self.add(field)?;
        map.next_value_seed(fields.clone())
    }
}
