//! Enums whose values have one text each, so that a value and its text stand in one list.

/// Defines an enum of named values, with `ALL` of them, `NAMED` for a configuration, `name` and
/// [`Display`](core::fmt::Display).
///
/// ```
/// outflow_core::named_enum! {
///     /// Side of a coin.
///     pub enum CoinSide {
///         /// The portrait.
///         Heads = "heads",
///         /// The number.
///         Tails = "tails",
///     }
/// }
///
/// assert_eq!(CoinSide::ALL.map(CoinSide::name), ["heads", "tails"]);
/// assert_eq!(CoinSide::NAMED[1], ("tails", CoinSide::Tails));
/// ```
#[macro_export]
macro_rules! named_enum {
    (
        $(#[$about:meta])*
        $seen:vis enum $enum:ident {
            $($(#[$note:meta])* $value:ident = $name:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
        $seen enum $enum {
            $($(#[$note])* $value,)+
        }

        #[allow(dead_code, reason = "not every enum is listed and read")]
        impl $enum {
            /// All values.
            $seen const ALL: [Self; [$($name),+].len()] = [$(Self::$value),+];

            /// All values with their names.
            $seen const NAMED: [(&'static str, Self); Self::ALL.len()] = [$(($name, Self::$value)),+];

            /// Returns the name used in configuration, logs and metrics.
            $seen const fn name(self) -> &'static str {
                match self {
                    $(Self::$value => $name,)+
                }
            }
        }

        impl ::core::fmt::Display for $enum {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(self.name())
            }
        }
    };
}

/// Defines an error whose values have a message each.
///
/// ```
/// outflow_core::error_enum! {
///     /// Error of a coin.
///     pub enum InvalidCoin {
///         /// It has no second side.
///         OneSided = "a coin needs a second side: turn it over",
///     }
/// }
///
/// assert_eq!(InvalidCoin::OneSided.to_string(), "a coin needs a second side: turn it over");
/// ```
#[macro_export]
macro_rules! error_enum {
    (
        $(#[$about:meta])*
        $seen:vis enum $error:ident {
            $($(#[$note:meta])* $value:ident = $message:literal,)+
        }
    ) => {
        $(#[$about])*
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        $seen enum $error {
            $($(#[$note])* $value,)+
        }

        impl ::core::fmt::Display for $error {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.write_str(match self {
                    $(Self::$value => $message,)+
                })
            }
        }

        impl ::core::error::Error for $error {}
    };
}
