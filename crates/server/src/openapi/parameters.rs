//! The parameters of operations, in paths, queries and headers.

use serde_json::{Value, json};

use super::schema::{flag, one_of};
use crate::profiles::PROFILES;
use crate::routes::{Parameter, Route, TABLE};

/// The parameters of an operation.
pub(super) fn of(route: &Route, copies: u32) -> Vec<Value> {
    let in_path = route.path.iter().filter(|part| part.starts_with('{')).map(|part| {
        let name = part.trim_matches(['{', '}']);
        let schema = if name == "profile" { one_of(&PROFILES) } else { (TABLE.form)(copies) };
        json!({ "name": name, "in": "path", "required": true, "schema": schema })
    });
    let others = route.parameters.iter().copied().flatten();
    let others = others.map(|parameter| described(parameter, copies));
    in_path.chain(others).collect()
}

fn described(parameter: &Parameter, copies: u32) -> Value {
    let schema = (parameter.form)(copies);
    let mut described = json!({
        "name": parameter.name,
        "in": parameter.place,
        "required": parameter.is_required,
        "description": parameter.about,
    });
    if schema == flag() {
        // A flag without a value is true.
        described["allowEmptyValue"] = true.into();
    }
    described["schema"] = schema;
    described
}
