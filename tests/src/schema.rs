//! Checks JSON against a JSON Schema: the keywords that `docs/report.schema.json` uses.

use serde_json::Value;

/// The first difference between a value and a schema, with its path.
///
/// # Panics
/// If the schema has a keyword that is not implemented here.
pub fn difference(schema: &Value, value: &Value) -> Option<String> {
    Checker { root: schema }.check(schema, value, "$").err()
}

struct Checker<'a> {
    root: &'a Value,
}

impl Checker<'_> {
    fn check(&self, schema: &Value, value: &Value, path: &str) -> Result<(), String> {
        let Some(keywords) = schema.as_object() else { panic!("{schema} is not a schema") };
        for (keyword, operand) in keywords {
            let holds = match keyword.as_str() {
                "$schema" | "$defs" | "title" | "description" => true,
                "$ref" => {
                    let pointer = operand.as_str().unwrap_or_default().trim_start_matches('#');
                    let Some(target) = self.root.pointer(pointer) else {
                        panic!("nothing is at {operand}");
                    };
                    self.check(target, value, path)?;
                    true
                }
                "oneOf" => {
                    let results: Vec<_> =
                        list(operand).iter().map(|one| self.check(one, value, path)).collect();
                    let fits = results.iter().filter(|result| result.is_ok()).count();
                    if fits != 1 {
                        let reasons: Vec<_> = results.into_iter().filter_map(Result::err).collect();
                        return Err(format!("{path}: {fits} forms fit; {}", reasons.join("; ")));
                    }
                    true
                }
                "type" => match operand {
                    Value::Array(types) => types.iter().any(|one| is_a(one, value)),
                    one => is_a(one, value),
                },
                "const" => operand == value,
                "enum" => list(operand).contains(value),
                "minimum" => value.as_i64() >= operand.as_i64() || !value.is_number(),
                "required" => {
                    let missing = list(operand)
                        .iter()
                        .find(|key| value.get(key.as_str().unwrap_or_default()).is_none());
                    if let Some(key) = missing {
                        return Err(format!("{path} has no {key}"));
                    }
                    true
                }
                "properties" => {
                    for (key, schema) in operand.as_object().into_iter().flatten() {
                        if let Some(value) = value.get(key) {
                            self.check(schema, value, &format!("{path}.{key}"))?;
                        }
                    }
                    true
                }
                "additionalProperties" => {
                    assert_eq!(*operand, Value::Bool(false), "only false is implemented");
                    let known = &schema["properties"];
                    let mut keys = value.as_object().into_iter().flatten().map(|(key, _)| key);
                    if let Some(key) = keys.find(|key| known.get(key).is_none()) {
                        return Err(format!("{path} has {key}, which the schema does not know"));
                    }
                    true
                }
                "items" => {
                    for (number, item) in value.as_array().into_iter().flatten().enumerate() {
                        self.check(operand, item, &format!("{path}[{number}]"))?;
                    }
                    true
                }
                other => panic!("the keyword {other} is not implemented"),
            };
            if !holds {
                return Err(format!("{path} is {value}, but {keyword} is {operand}"));
            }
        }
        Ok(())
    }
}

fn list(operand: &Value) -> &[Value] {
    operand.as_array().map_or(&[], Vec::as_slice)
}

fn is_a(kind: &Value, value: &Value) -> bool {
    match kind.as_str() {
        Some("object") => value.is_object(),
        Some("array") => value.is_array(),
        Some("string") => value.is_string(),
        Some("integer") => value.is_i64() || value.is_u64(),
        Some("null") => value.is_null(),
        _ => panic!("the type {kind} is not implemented"),
    }
}
