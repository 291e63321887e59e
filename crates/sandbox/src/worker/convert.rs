//! Arguments as values of the engine: data, never source text.

use rquickjs::object::Property;
use rquickjs::{Array, BigInt, Ctx, IntoJs, Object, Result, Value};
use serde_json::Value as Json;

/// Whole numbers beyond this, either way, become BigInt.
const SAFE: i64 = (1 << 53) - 1;

pub(super) fn to_engine<'js>(ctx: &Ctx<'js>, json: &Json) -> Result<Value<'js>> {
    Ok(match json {
        Json::Null => Value::new_null(ctx.clone()),
        Json::Bool(flag) => Value::new_bool(ctx.clone(), *flag),
        Json::String(text) => text.as_str().into_js(ctx)?,
        Json::Number(number) => match (number.as_i64(), number.as_u64()) {
            (Some(whole), _) if (-SAFE..=SAFE).contains(&whole) => match i32::try_from(whole) {
                Ok(small) => Value::new_int(ctx.clone(), small),
                Err(_) => Value::new_float(ctx.clone(), whole as f64),
            },
            (Some(whole), _) => BigInt::from_i64(ctx.clone(), whole)?.into_value(),
            (None, Some(whole)) => BigInt::from_u64(ctx.clone(), whole)?.into_value(),
            (None, None) => Value::new_float(ctx.clone(), number.as_f64().unwrap_or(f64::NAN)),
        },
        Json::Array(items) => {
            let array = Array::new(ctx.clone())?;
            for (at, item) in items.iter().enumerate() {
                array.set(at, to_engine(ctx, item)?)?;
            }
            array.into_value()
        }
        Json::Object(fields) => {
            let object = Object::new(ctx.clone())?;
            for (name, field) in fields {
                // Defined, not assigned: assigning `__proto__` would change the prototype.
                let value = Property::from(to_engine(ctx, field)?).writable().enumerable().configurable();
                object.prop(name.as_str(), value)?;
            }
            object.into_value()
        }
    })
}
