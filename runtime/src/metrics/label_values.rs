//! Macros for label values: enums with a fixed set of values, and the label sets that contain them.
//!
//! A crate that uses these macros must depend on `prometheus-client`, which the generated code refers to.

/// Defines an enum whose variants are label values. Each variant has a documentation comment, which becomes
/// its meaning in the reference page, and the text of the value.
#[macro_export]
macro_rules! label_values {
    ($(#[$meta:meta])* $vis:vis $name:ident { $($(#[doc = $meaning:literal])+ $variant:ident => $text:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $name { $($(#[doc = $meaning])+ $variant),+ }

        impl $name {
            /// All values.
            $vis const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The text of the value in a label.
            $vis fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $text),+ }
            }
        }

        impl ::prometheus_client::encoding::EncodeLabelValue for $name {
            fn encode(
                &self,
                encoder: &mut ::prometheus_client::encoding::LabelValueEncoder<'_>,
            ) -> ::std::fmt::Result {
                ::std::fmt::Write::write_str(encoder, self.as_str())
            }
        }

        impl $crate::metrics::LabelValue for $name {
            fn values() -> $crate::metrics::Values {
                let meaning = |value| match value { $(Self::$variant => concat!($($meaning),+).trim_ascii()),+ };
                let values = Self::ALL.iter().map(|value| (value.as_str(), meaning(*value)));
                $crate::metrics::Values::Fixed(values.collect())
            }

            fn known_values() -> Vec<Self> {
                Self::ALL.to_vec()
            }
        }
    };
}

/// Defines a set of labels. The type of each label implements [`LabelValue`](crate::metrics::LabelValue).
#[macro_export]
macro_rules! label_set {
    (@each $sets:ident { $($known:ident)* } $label:ident: $value:ty, $($rest:tt)*) => {
        for $label in <$value as $crate::metrics::LabelValue>::known_values() {
            $crate::label_set!(@each $sets { $($known)* $label } $($rest)*);
        }
    };
    (@each $sets:ident { $($known:ident)* }) => {
        $sets.push(Self { $($known: ::std::clone::Clone::clone(&$known)),* });
    };
    ($vis:vis $name:ident { $($label:ident: $value:ty),+ }) => {
        #[derive(Clone, Debug, PartialEq, Eq, Hash, ::prometheus_client::encoding::EncodeLabelSet)]
        $vis struct $name { $($vis $label: $value),+ }

        impl $crate::metrics::MetricLabels for $name {
            fn labels() -> Vec<$crate::metrics::Label> {
                vec![$($crate::metrics::Label {
                    name: stringify!($label),
                    values: <$value as $crate::metrics::LabelValue>::values(),
                }),+]
            }

            fn known_sets() -> Vec<Self> {
                let mut sets = Vec::new();
                $crate::label_set!(@each sets {} $($label: $value,)+);
                sets
            }
        }
    };
}

/// [`label_values`] under the name that the controller uses.
#[macro_export]
macro_rules! words {
    ($($tokens:tt)*) => { $crate::label_values!($($tokens)*); };
}
