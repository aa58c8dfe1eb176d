//! The words that label values are made of, and the sets of labels made of them.
//!
//! Whoever uses these macros depends on `prometheus-client`, which the generated code names.

/// Enums whose values stand for themselves in a label: each variant has a meaning, for the documentation, and a word.
#[macro_export]
macro_rules! words {
    ($(#[$meta:meta])* $vis:vis $name:ident { $(#[doc = $meaning:literal] $variant:ident => $word:literal),+ $(,)? }) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        $vis enum $name { $(#[doc = $meaning] $variant),+ }

        impl $name {
            /// All of them.
            $vis const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The word in the label.
            $vis fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $word),+ }
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

        impl $crate::metrics::Word for $name {
            fn values() -> $crate::metrics::Values {
                let meaning = |word| match word { $(Self::$variant => $meaning.trim_ascii()),+ };
                let words = Self::ALL.iter().map(|word| (word.as_str(), meaning(*word)));
                $crate::metrics::Values::Words(words.collect())
            }
        }
    };
}

/// A set of labels whose values are words.
#[macro_export]
macro_rules! label_set {
    ($vis:vis $name:ident { $($label:ident: $word:ty),+ }) => {
        #[derive(Clone, Debug, PartialEq, Eq, Hash, ::prometheus_client::encoding::EncodeLabelSet)]
        $vis struct $name { $($vis $label: $word),+ }

        impl $crate::metrics::Labels for $name {
            fn labels() -> Vec<$crate::metrics::Label> {
                vec![$($crate::metrics::Label {
                    name: stringify!($label),
                    values: <$word as $crate::metrics::Word>::values(),
                }),+]
            }
        }
    };
}
