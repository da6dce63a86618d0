//! A command's signature: the words that name it and the arguments that follow.
//!
//! Owns the reading of Ceph's one-line notation (v16.2 `src/mon/MonCommands.h`, described at its top):
//! `osd find name=id,type=CephOsdName`. Signatures are our own constants: what does not read is a bug, found by the
//! table's test, so reading panics on it.

/// One parameter.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Parameter {
    /// All its properties (`name`, `type`, `n`, `req`, `strings`, `range`, `goodchars`), sorted by key.
    pub properties: Vec<(&'static str, &'static str)>,
}

impl Parameter {
    /// The value of a property.
    pub fn property(&self, key: &str) -> Option<&'static str> {
        self.properties.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)
    }

    /// The argument's name.
    pub fn name(&self) -> &'static str {
        self.property("name").expect("every parameter has a name")
    }

    /// Whether the command makes no sense without it.
    pub fn required(&self) -> bool {
        self.property("req") != Some("false") && self.property("type") != Some("CephBool")
    }
}

/// A signature, taken apart.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Signature {
    /// The words, joined by a space.
    pub prefix: String,
    /// The parameters in order.
    pub parameters: Vec<Parameter>,
}

impl Signature {
    /// Reads the notation.
    pub fn parse(text: &'static str) -> Signature {
        let (mut words, mut parameters) = (Vec::new(), Vec::new());
        for token in text.split_whitespace() {
            if !token.contains('=') {
                assert!(parameters.is_empty(), "words come before parameters: {text}");
                words.push(token);
                continue;
            }
            let property = |part: &'static str| part.split_once('=').expect("a property has a value");
            let mut properties: Vec<_> = token.split(',').map(property).collect();
            properties.sort_unstable();
            let parameter = Parameter { properties };
            assert!(!parameter.name().is_empty() && parameter.property("type").is_some(), "{text}");
            parameters.push(parameter);
        }
        Signature { prefix: words.join(" "), parameters }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_parameters() {
        let s = Signature::parse(
            "osd pool get name=pool,type=CephPoolname name=var,type=CephChoices,strings=a|b,req=false",
        );
        assert_eq!(s.prefix, "osd pool get");
        assert_eq!(s.parameters.len(), 2);
        assert!(s.parameters[0].required() && !s.parameters[1].required());
        assert_eq!(s.parameters[1].properties[1], ("req", "false"));
    }
}
