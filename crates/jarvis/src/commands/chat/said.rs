//! What a person says in a conversation, with the images it names; and taking it back.

use super::{Conversation, keep_on};
use crate::commands::session::show_undone;
use crate::error::{Failure, Outcome, usage};
use crate::images::{self, Named};
use crate::{run, term};
use jarvis_agent::Input;

impl Conversation<'_> {
    /// The message with the images that what was typed names, each of which is told. A model that looks at none is not shown one
    /// that was dragged in; a mere name in a sentence stays a word for it.
    pub(super) fn said(&self, text: &str, typed: &str) -> Outcome<Input> {
        let named = images::named(typed, run::person().as_deref());
        let model = self.session.model();
        let mut input = Input::from(text);
        for Named { path, whole } in named {
            let loaded = images::load(&path);
            match (whole, model.takes_images()) {
                (true, takes) => {
                    let image = loaded?;
                    images::fit(std::slice::from_ref(&image), model.id(), takes)?;
                    input.images.push(image);
                }
                (false, true) => input.images.extend(loaded.ok()),
                (false, false) => {}
            }
        }
        input.images.iter().for_each(|image| term::status(images::told(image)));
        Ok(input)
    }

    pub(super) async fn undo(&mut self, argument: &str) -> Outcome {
        let force = match argument {
            "" => false,
            "--force" => true,
            other => {
                return keep_on(usage(format!("/undo does not know `{other}`"), "/undo, or /undo --force"));
            }
        };
        match self.session.undo(force).await {
            Ok(undone) => show_undone(&undone, self.common.json, false),
            Err(body) => keep_on(Failure::Body(body)),
        }
    }
}
