//! Enums whose variants have names for files, tables and the command line, each written beside its variant.

/// Makes of an enum with a text behind each variant: the enum, the list `ALL` of it, `name`, and what prints the name.
#[macro_export]
macro_rules! named {
    ($(#[$of_all:meta])* $visibility:vis enum $of:ident {
        $($(#[$of_one:meta])* $variant:ident = $name:literal,)+
    }) => {
        $(#[$of_all])*
        $visibility enum $of {
            $($(#[$of_one])* $variant,)+
        }

        impl $of {
            /// All of them, in their order.
            #[allow(dead_code, reason = "not every kind is gone through")]
            $visibility const ALL: [Self; [$($name),+].len()] = [$(Self::$variant),+];

            /// Its name.
            $visibility const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name,)+
                }
            }

            /// The one of this name.
            #[allow(dead_code, reason = "not every kind is read")]
            $visibility fn named(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|one| one.name() == name)
            }
        }

        impl ::core::fmt::Display for $of {
            fn fmt(&self, f: &mut ::core::fmt::Formatter<'_>) -> ::core::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}

#[cfg(test)]
mod tests {
    crate::named! {
        /// Two directions.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        enum Direction {
            Up = "upwards",
            Down = "downwards",
        }
    }

    #[test]
    fn names_are_printed_and_found() {
        assert_eq!(Direction::ALL.map(Direction::name), ["upwards", "downwards"]);
        assert_eq!(format!("{:>10}|", Direction::Up), "   upwards|");
        assert_eq!((Direction::named("downwards"), Direction::named("down")), (Some(Direction::Down), None));
    }
}
