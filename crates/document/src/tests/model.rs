//! Random sequences of changes, compared with a model that is an ordered map.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn values() -> impl Strategy<Value = serde_json::Value> {
    let small = prop_oneof![
        Just(json!(null)),
        (0..4_i32).prop_map(|number| json!(number)),
        "[xy]{0,2}".prop_map(|text| json!(text)),
        // Longer than the fields in a key may be.
        Just(json!("long".repeat(300))),
    ];
    let elements = prop::collection::vec(0..3_i32, 0..4);
    (small.clone(), small, prop::option::of(0..6_i32), elements).prop_map(|(a, c, u, t)| {
        let mut value = json!({ "a": a, "b": { "c": c }, "t": t });
        if let Some(u) = u {
            value["u"] = json!(u);
        }
        value
    })
}

fn steps() -> impl Strategy<Value = Step> {
    let key = || "[kl][1-6]";
    prop_oneof![
        (key(), values()).prop_map(|(key, value)| Step::Insert(key, value)),
        (key(), values()).prop_map(|(key, value)| Step::Update(key, value)),
        (key(), values()).prop_map(|(key, value)| Step::Replace(key, value)),
        key().prop_map(Step::Remove),
        prop::collection::vec((key(), values()), 0..6).prop_map(Step::Import),
    ]
}

/// The result of an update: objects are merged.
fn merged(old: &serde_json::Value, new: &serde_json::Value) -> serde_json::Value {
    let (Some(old), Some(new)) = (old.as_object(), new.as_object()) else { return new.clone() };
    let mut both = old.clone();
    for (name, value) in new {
        let value = old.get(name).map_or_else(|| value.clone(), |old| merged(old, value));
        both.insert(name.clone(), value);
    }
    serde_json::Value::Object(both)
}

/// True if no two documents have the same `u`.
fn is_allowed(model: &Model) -> bool {
    let values = model.values().filter_map(|value| value.get("u"));
    let mut values: Vec<_> = values.filter_map(serde_json::Value::as_i64).collect();
    let count = values.len();
    values.sort_unstable();
    values.dedup();
    values.len() == count
}

/// The model after a step; `None` if the step must be refused.
fn after(model: &Model, step: &Step) -> Option<Model> {
    let mut model = model.clone();
    match step {
        Step::Insert(key, _) if model.contains_key(key) => return None,
        Step::Update(key, _) | Step::Replace(key, _) | Step::Remove(key)
            if !model.contains_key(key) =>
        {
            return None;
        }
        Step::Insert(key, value) | Step::Replace(key, value) => {
            model.insert(key.clone(), value.clone());
        }
        Step::Update(key, value) => {
            let new = merged(&model[key], value);
            model.insert(key.clone(), new);
        }
        Step::Remove(key) => {
            model.remove(key);
        }
        Step::Import(lines) => {
            for (key, value) in lines {
                model.insert(key.clone(), value.clone());
                // Unique constraints are checked after each line.
                if !is_allowed(&model) {
                    return None;
                }
            }
        }
    }
    is_allowed(&model).then_some(model)
}

/// Checks that a query finds the same keys as the model.
fn same_keys(
    documents: &Arc<Documents>,
    model: &Model,
    filter: &str,
    binds: &serde_json::Value,
    holds: impl Fn(&serde_json::Value) -> bool,
) {
    let text = format!("FOR d IN {COLLECTION} FILTER {filter} RETURN d._key");
    let mut keys: Vec<_> =
        query(documents, &text, binds).iter().map(|key| key.as_str().unwrap().to_owned()).collect();
    keys.sort_unstable();
    let expected = model.iter().filter(|(_, value)| holds(value)).map(|(key, _)| key.clone());
    assert_eq!(keys, expected.collect::<Vec<_>>(), "{filter} {binds}");
}

fn check(documents: &Arc<Documents>, collection: &Collection, model: &Model) {
    assert_eq!(&agree(documents, collection), model);
    for a in [json!(null), json!(1), json!("x"), json!("long".repeat(300))] {
        same_keys(documents, model, "d.a == @a", &json!({ "a": a }), |value| value["a"] == a);
    }
    same_keys(documents, model, "d.u == @u", &json!({ "u": 3 }), |value| value["u"] == 3);
    same_keys(documents, model, "@t IN d.t[*]", &json!({ "t": 2 }), |value| {
        value["t"].as_array().is_some_and(|array| array.contains(&json!(2)))
    });
    let texts = query(
        documents,
        &format!(
            "FOR d IN {COLLECTION} FILTER d._key >= 'k3' && d._key \
         < 'l2' SORT d._key RETURN d._key"
        ),
        &json!({}),
    );
    let texts: Vec<_> = texts.iter().filter_map(Value::as_str).collect();
    let range = model.range("k3".to_owned().."l2".to_owned());
    assert_eq!(texts, range.map(|(key, _)| key.as_str()).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn documents_and_indexes_are_as_the_model_has_them(
        runs in prop::collection::vec((prop::collection::vec(steps(), 1..12), any::<bool>()), 1..4),
    ) {
        let mut files = SimulatedFileSystem::new();
        let mut model = Model::new();
        let mut documents = open(&files).unwrap();
        make(&documents).unwrap();
        for (steps, is_closed) in runs {
            let collection = found(&documents).unwrap();
            for step in steps {
                let next = after(&model, &step);
                let outcome = apply(&documents, &collection, &step);
                prop_assert_eq!(outcome.is_ok(), next.is_some(), "{:?}: {:?}", step, outcome);
                model = next.unwrap_or(model);
            }
            check(&documents, &collection, &model);
            drop(collection);
            if is_closed {
                documents.note_counts().unwrap();
                documents.store().close().unwrap();
            } else {
                files = files.kill();
            }
            drop(documents);
            documents = open(&files).unwrap();
            check(&documents, &found(&documents).unwrap(), &model);
        }
    }
}
