//! Compiles the JavaScript layer of the worker to the engine's bytecode, so that no start of a worker parses it. The
//! bytecode is made here by the very engine that loads it, and nothing else is ever loaded.
#![allow(clippy::print_stdout, clippy::disallowed_methods, reason = "how a build script speaks to cargo")]

use rquickjs::{Context, Ctx, Runtime, qjs};
use std::error::Error;
use std::ffi::CString;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// In the order in which they are evaluated.
const LAYER: [&str; 6] = ["core", "web", "date", "numbers", "intl", "ctx"];

fn main() -> Result<(), Box<dyn Error>> {
    let out = PathBuf::from(std::env::var("OUT_DIR")?);
    let swap = std::env::var("CARGO_CFG_TARGET_ENDIAN")? != if cfg!(target_endian = "big") { "big" } else { "little" };
    let runtime = Runtime::new()?;
    let context = Context::full(&runtime)?;
    let mut list = String::from("const LAYER: &[(&str, &[u8])] = &[\n");
    for name in LAYER {
        let path = Path::new("src/worker/js").join(format!("{name}.js"));
        println!("cargo::rerun-if-changed={}", path.display());
        let source = std::fs::read_to_string(&path)?;
        let code = context.with(|ctx| compile(&ctx, name, source, swap))?;
        let file = out.join(format!("{name}.bin"));
        std::fs::write(&file, code)?;
        writeln!(list, "    ({name:?}, include_bytes!({file:?})),")?;
    }
    list.push_str("];\n");
    std::fs::write(out.join("layer.rs"), list)?;
    println!("cargo::rerun-if-changed=build.rs");
    Ok(())
}

fn compile(ctx: &Ctx<'_>, name: &str, source: String, swap: bool) -> Result<Vec<u8>, Box<dyn Error>> {
    let length = source.len();
    let (source, file) = (CString::new(source)?, CString::new(format!("{name}.js"))?);
    let raw = ctx.as_raw().as_ptr();
    let flags = qjs::JS_EVAL_TYPE_GLOBAL | qjs::JS_EVAL_FLAG_COMPILE_ONLY;
    let mut write = qjs::JS_WRITE_OBJ_BYTECODE | qjs::JS_WRITE_OBJ_STRIP_SOURCE;
    if swap {
        write |= qjs::JS_WRITE_OBJ_BSWAP;
    }
    // Sound: both texts end with a zero byte and outlive the call; what the engine hands out is copied and freed.
    unsafe {
        let code = qjs::JS_Eval(raw, source.as_ptr(), length as _, file.as_ptr(), flags as _);
        if qjs::JS_IsException(code) {
            return Err(format!("{name}.js does not compile: {:?}", ctx.catch()).into());
        }
        let mut size = 0;
        let bytes = qjs::JS_WriteObject(raw, &mut size, code, write as _);
        qjs::JS_FreeValue(raw, code);
        if bytes.is_null() {
            return Err(format!("{name}.js cannot be written as bytecode").into());
        }
        let copy = std::slice::from_raw_parts(bytes, size as usize).to_vec();
        qjs::js_free(raw, bytes.cast());
        Ok(copy)
    }
}
