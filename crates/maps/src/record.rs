//! A macro for flat structures in a versioned envelope: declares the fields once, in the order of the bytes.

/// Declares a structure with its encoding. `Name("c_name", version, compat, oldest)`: written as `version`, readable by
/// readers of `compat`; encodings older than `oldest`, which lack fields, are refused; what newer ones append is
/// skipped. Each field must implement `Encode` and `Decode`.
macro_rules! record {
    (
        $(#[$meta:meta])*
        $name:ident($what:literal, $version:literal, $compat:literal, $oldest:literal) {
            $($(#[$field_meta:meta])* $field:ident: $ty:ty,)*
        }
    ) => {
        $(#[$meta])*
        pub struct $name {
            $($(#[$field_meta])* pub $field: $ty,)*
        }

        impl wire::Encode for $name {
            fn encode(&self, e: &mut wire::Encoder) {
                e.versioned($version, $compat, |e| {
                    $(e.put(&self.$field);)*
                });
            }
        }

        impl wire::Decode for $name {
            const MIN_BYTES: usize = 6 $(+ <$ty as wire::Decode>::MIN_BYTES)*;
            fn decode(d: &mut wire::Decoder<'_>) -> Result<Self, wire::Malformed> {
                d.versioned($what, $version, |d, version| {
                    if version < $oldest {
                        return Err(wire::Malformed::new($what, "is older than Pacific writes"));
                    }
                    Ok($name { $($field: d.get()?,)* })
                })
            }
        }
    };
}

pub(crate) use record;
