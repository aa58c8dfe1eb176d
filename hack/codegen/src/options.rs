//! What the types of a family of CRDs share.

/// How the types of a family are generated.
#[derive(Clone, Copy)]
pub(crate) struct TypeOptions {
    /// Whether every type has a field for the fields of the object that its schema does not describe.
    ///
    /// A program then writes an object of a newer platform back as it was. Conditions of such a family can
    /// lack fields that Kubernetes' own condition type requires, so they have a type of their own.
    pub(crate) keep_unknown_fields: bool,
    /// Parts of schemas for which no types are generated.
    pub(crate) shared: &'static [SharedSchemaPart],
}

/// A part of one kind's schema for which another Rust type exists.
pub(crate) struct SharedSchemaPart {
    /// The kind whose schema contains the part.
    pub(crate) kind: &'static str,
    /// Path of the part in the schema. For a list, its entries are meant.
    pub(crate) part: &'static str,
    /// The type that is used instead: a path, or a name in the same module.
    pub(crate) target: &'static str,
}

impl SharedSchemaPart {
    /// The name that kopium's analysis gives the part; the names of types inside it start with this.
    pub(crate) fn prefix(&self) -> String {
        let part = self.part.split('.').map(|field| {
            let (first, rest) = field.split_at(1);
            format!("{}{rest}", first.to_uppercase())
        });
        format!("{}{}", camel_case(self.kind), part.collect::<String>())
    }

    /// The name by which kopium's output refers to the part: without the `Spec` of the kind.
    pub(crate) fn alias(&self) -> String {
        let kind = camel_case(self.kind);
        self.prefix().replacen(&format!("{kind}Spec"), &kind, 1)
    }

    /// The name of the target without its path.
    pub(crate) fn target_name(&self) -> &str {
        self.target.rsplit("::").next().unwrap_or(self.target)
    }
}

/// The kind as kopium writes it in names of types: an abbreviation is one word, so `VMDiskImage` is
/// `VmDiskImage`.
fn camel_case(kind: &str) -> String {
    let letters: Vec<char> = kind.chars().collect();
    let inside_abbreviation = |at: usize| {
        at > 0 && letters[at - 1].is_uppercase() && letters.get(at + 1).is_none_or(|next| next.is_uppercase())
    };
    let letter = |(at, letter): (usize, &char)| {
        if inside_abbreviation(at) { letter.to_ascii_lowercase() } else { *letter }
    };
    letters.iter().enumerate().map(letter).collect()
}
