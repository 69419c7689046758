//! Merging of objects, for updates of documents and AQL's `MERGE`.

use crate::packed::Builder;
use crate::{ObjectRef, Ref};

/// The options of a merge of two objects.
#[derive(Clone, Copy, Debug)]
pub struct MergeOptions {
    /// True if attributes that are null in the newer object become null; otherwise they are
    /// removed, at any depth that is merged.
    pub keep_null: bool,
    /// True if attributes that are objects on both sides are merged as well; otherwise the newer
    /// one replaces the older.
    pub merge_objects: bool,
}

impl Default for MergeOptions {
    fn default() -> Self {
        Self { keep_null: true, merge_objects: true }
    }
}

/// Adds the merged members of `old` and `new` to an object that `builder` has begun. Members whose
/// names `skip` accepts are left out. Arrays are replaced. If the builder fails, the rest is not
/// added.
pub fn merge_into(
    builder: &mut Builder,
    old: ObjectRef<'_>,
    new: ObjectRef<'_>,
    options: MergeOptions,
    skip: &dyn Fn(&str) -> bool,
) {
    for (name, before) in old.iter().filter(|(name, _)| !skip(name)) {
        if builder.has_failed() {
            return;
        }
        match new.get(name) {
            None => {
                builder.name(name);
                builder.value(before);
            }
            Some(Ref::Null) if !options.keep_null => {}
            Some(after) => {
                builder.name(name);
                match (before, after) {
                    (Ref::Object(before), Ref::Object(after)) if options.merge_objects => {
                        builder.begin_object();
                        merge_into(builder, before, after, options, &|_| false);
                        builder.end();
                    }
                    _ => add(builder, after, options),
                }
            }
        }
    }
    for (name, after) in new.iter().filter(|(name, _)| !skip(name)) {
        let goes = matches!(after, Ref::Null) && !options.keep_null;
        if !goes && old.get(name).is_none() {
            builder.name(name);
            add(builder, after, options);
        }
    }
}

/// Adds a new value, without its null members unless the options keep them.
fn add(builder: &mut Builder, value: Ref<'_>, options: MergeOptions) {
    match value {
        Ref::Object(object) if !options.keep_null && !builder.has_failed() => {
            builder.begin_object();
            for (name, member) in object.iter().filter(|(_, member)| !matches!(member, Ref::Null)) {
                builder.name(name);
                add(builder, member, options);
            }
            builder.end();
        }
        _ => builder.value(value),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DuplicateRule, Value, json};

    fn merged(old: &str, new: &str, options: MergeOptions) -> String {
        let parse = |text: &str| json::parse_value(text.as_bytes(), DuplicateRule::Refuse);
        let (old, new) = (parse(old).unwrap(), parse(new).unwrap());
        let mut builder = Builder::new();
        builder.begin_object();
        let (old, new) = (old.view().as_object().unwrap(), new.view().as_object().unwrap());
        merge_into(&mut builder, old, new, options, &|name| name == "_key");
        builder.end();
        Value::open(&builder.finish().unwrap()).unwrap().to_json()
    }

    #[test]
    fn objects_merge_and_arrays_are_replaced() {
        let (old, new) =
            (r#"{"_key":"k","a":{"x":1,"y":2},"b":[1,2]}"#, r#"{"b":[3],"a":{"y":null},"c":4}"#);
        let options = MergeOptions::default();
        assert_eq!(merged(old, new, options), r#"{"a":{"x":1,"y":null},"b":[3],"c":4}"#);
        let options = MergeOptions { keep_null: false, merge_objects: true };
        assert_eq!(merged(old, new, options), r#"{"a":{"x":1},"b":[3],"c":4}"#);
        let options = MergeOptions { keep_null: false, merge_objects: false };
        assert_eq!(merged(old, new, options), r#"{"a":{},"b":[3],"c":4}"#);
    }
}
