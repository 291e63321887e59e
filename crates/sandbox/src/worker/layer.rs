//! The JavaScript around the code, as bytecode that the build made of the sources in `js/`.

use rquickjs::{CatchResultExt, Ctx, Function, Object, Value, qjs};

include!(concat!(env!("OUT_DIR"), "/layer.rs"));

/// Evaluates every part, with what the parts need of Rust; they hand over what the worker calls in `host`.
pub(super) fn load<'js>(ctx: &Ctx<'js>, native: &Object<'js>, host: &Object<'js>) -> Result<(), String> {
    for (name, bytecode) in LAYER {
        let wrong = |e: String| format!("{name}.js: {e}");
        let part = evaluate(ctx, bytecode).catch(ctx).map_err(|e| wrong(e.to_string()))?;
        part.call::<_, ()>((native.clone(), host.clone())).catch(ctx).map_err(|e| wrong(e.to_string()))?;
    }
    Ok(())
}

fn evaluate<'js>(ctx: &Ctx<'js>, bytecode: &[u8]) -> rquickjs::Result<Function<'js>> {
    // Sound: the bytecode is our own, of this engine's version, and outlives the call, which copies it. Evaluating takes
    // the compiled function over; the value is owned from there on.
    let value = unsafe {
        let raw = ctx.as_raw().as_ptr();
        let code = qjs::JS_ReadObject(raw, bytecode.as_ptr(), bytecode.len() as _, qjs::JS_READ_OBJ_BYTECODE as _);
        if qjs::JS_IsException(code) {
            return Err(rquickjs::Error::Exception);
        }
        let value = qjs::JS_EvalFunction(raw, code);
        if qjs::JS_IsException(value) {
            return Err(rquickjs::Error::Exception);
        }
        Value::from_raw(ctx.clone(), value)
    };
    value.get()
}
