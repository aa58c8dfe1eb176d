//! Tables of metrics: structs that register their fields.
//!
//! A crate that uses the macro must depend on `prometheus-client`, for the types of the metrics.

/// Defines a struct of metrics and its constructor `new`, which registers them in the order of the rows.
///
/// Each row has the help text, the field with its type, the name of the metric, and what it counts or
/// measures. If a metric does not start as the default of its type, an expression with its first state
/// follows. The fields in `with` are not metrics. They start with the default of their type.
#[macro_export]
macro_rules! metric_table {
    (@first $metric:ty) => { <$metric as ::std::default::Default>::default() };
    (@first $metric:ty, $first:expr) => { $first };
    (
        $(#[$meta:meta])*
        $vis:vis struct $table:ident {
            $(
                $(#[doc = $help:literal])+
                $row_vis:vis $row:ident: $metric:ty = $name:literal in $unit:literal $(, $first:expr)?;
            )+
        }
        $(with { $($other:ident: $other_type:ty),+ })?
    ) => {
        $(#[$meta])*
        $vis struct $table {
            $($row_vis $row: $metric,)+
            $($($other: $other_type,)+)?
        }

        impl $table {
            /// Registers the metrics.
            $vis fn new(registry: &mut $crate::metrics::MetricsRegistry) -> Self {
                Self {
                    $($row: registry.register(
                        $name,
                        $unit,
                        concat!($($help),+),
                        $crate::metric_table!(@first $metric $(, $first)?),
                    ),)+
                    $($($other: ::std::default::Default::default(),)+)?
                }
            }
        }
    };
}
