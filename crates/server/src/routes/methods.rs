//! HTTP methods, and sets of them.

use std::fmt;

/// An HTTP method.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Method {
    Get,
    Head,
    Post,
    Put,
    Patch,
    Delete,
    Options,
    /// A method that no route has.
    Other,
}

impl Method {
    /// The methods that routes have, in the order in which `Allow` names them.
    pub(crate) const ALL: [Method; 7] = [
        Method::Get,
        Method::Head,
        Method::Post,
        Method::Put,
        Method::Patch,
        Method::Delete,
        Method::Options,
    ];

    /// The method of this name; names are case-sensitive.
    pub(crate) fn of(name: &str) -> Method {
        let found = Method::ALL.into_iter().find(|method| method.name() == name);
        found.unwrap_or(Method::Other)
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Method::Get => "GET",
            Method::Head => "HEAD",
            Method::Post => "POST",
            Method::Put => "PUT",
            Method::Patch => "PATCH",
            Method::Delete => "DELETE",
            Method::Options => "OPTIONS",
            Method::Other => "other",
        }
    }
}

/// A set of methods.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Methods(u8);

impl Methods {
    pub(crate) const NONE: Methods = Methods(0);

    pub(crate) const fn of(methods: &[Method]) -> Methods {
        let (mut set, mut index) = (0, 0);
        while index < methods.len() {
            set |= 1 << methods[index] as u8;
            index += 1;
        }
        Methods(set)
    }

    pub(crate) const fn has(self, method: Method) -> bool {
        self.0 & (1 << method as u8) != 0
    }

    /// The union of both sets.
    pub(crate) const fn with(self, others: Methods) -> Methods {
        Methods(self.0 | others.0)
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = Method> {
        Method::ALL.into_iter().filter(move |method| self.has(*method))
    }
}

/// Writes the methods in the form of the header `Allow`.
impl fmt::Display for Methods {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, method) in self.iter().enumerate() {
            f.write_str(if index == 0 { "" } else { ", " })?;
            f.write_str(method.name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_has_the_methods_it_was_made_from() {
        let set = Methods::of(&[Method::Put, Method::Get]);
        assert!(set.has(Method::Get) && !set.has(Method::Head) && !set.has(Method::Other));
        assert_eq!(set.with(Methods::of(&[Method::Delete])).to_string(), "GET, PUT, DELETE");
        assert_eq!(Methods::NONE.to_string(), "");
        assert!(Method::ALL.iter().all(|method| Method::of(method.name()) == *method));
    }
}
