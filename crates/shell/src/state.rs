//! What the commands before have done: variables, current folder, functions, files written. Only what the text says.

use crate::tree::Node;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Values a variable or folder is followed through; with more it is unknown.
const MAX_VALUES: usize = 32;

/// Variables, functions and written files that are followed.
const MAX_NAMES: usize = 256;
/// Longest value of a variable that is followed, in bytes.
const MAX_VALUE_BYTES: usize = 1024;

/// One value a word can have; None where it cannot be told.
pub(crate) type Value = Option<Text>;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Text {
    pub text: String,
    /// It stands for the names that match it (the variable of `for x in *.rs`).
    pub glob: bool,
}

pub(crate) fn known(text: impl Into<String>) -> Value {
    let text = text.into();
    (text.len() <= MAX_VALUE_BYTES).then_some(Text { text, glob: false })
}

/// What a name stands for as a function.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Function {
    /// More than one where it depends on a branch.
    pub bodies: Vec<Rc<Node>>,
    /// Without it, the name may still be a program.
    pub certain: bool,
}

/// The variables of a state at some moment.
pub(crate) struct Variables(BTreeMap<String, BTreeSet<Value>>);

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct State {
    variables: BTreeMap<String, BTreeSet<Value>>,
    /// Folders the shell may be in.
    folders: BTreeSet<Option<String>>,
    functions: BTreeMap<String, Function>,
    /// Arguments of the function being followed; None at the top.
    pub arguments: Option<Vec<Value>>,
    /// Splitting and globbing no longer work as usual.
    pub splits_strangely: bool,
    /// Files this command makes (absolute), and whether their content came from the network.
    written: BTreeMap<String, bool>,
}

impl State {
    pub fn new(folder: &str) -> State {
        State { folders: BTreeSet::from([Some(folder.to_owned())]), ..State::default() }
    }

    pub fn folder_set(&self) -> BTreeSet<Option<String>> {
        self.folders.clone()
    }

    pub fn folders(&self) -> impl Iterator<Item = Option<&str>> {
        self.folders.iter().map(|f| f.as_deref())
    }

    pub fn go(&mut self, folders: impl IntoIterator<Item = Option<String>>) {
        self.folders = few(folders.into_iter().collect());
    }

    pub fn join_folders(&mut self, others: impl IntoIterator<Item = Option<String>>) {
        let mut folders = std::mem::take(&mut self.folders);
        folders.extend(others);
        self.folders = few(folders);
    }

    /// The folder may have changed, or not.
    pub fn lose_folder(&mut self) {
        self.folders.insert(None);
    }

    pub fn variable(&self, name: &str) -> Option<&BTreeSet<Value>> {
        self.variables.get(name)
    }

    pub fn set(&mut self, name: &str, values: impl IntoIterator<Item = Value>) {
        // One too many is as good as unset: empty or unknown.
        if self.variables.len() < MAX_NAMES || self.variables.contains_key(name) {
            self.variables.insert(name.to_owned(), few(values.into_iter().collect()));
        }
    }

    pub fn define(&mut self, name: &str, body: Rc<Node>) {
        if self.functions.len() < MAX_NAMES {
            self.functions.insert(name.to_owned(), Function { bodies: vec![body], certain: true });
        }
    }

    pub fn function(&self, name: &str) -> Option<&Function> {
        self.functions.get(name)
    }

    /// After `unset -f`: the names may be programs again.
    pub fn doubt_functions(&mut self) {
        self.functions.values_mut().for_each(|f| f.certain = false);
    }

    /// In a new process: no functions, no arguments, and only exported variables.
    pub fn become_child(&mut self) {
        self.functions.clear();
        self.arguments = None;
        self.splits_strangely = false;
        self.variables.values_mut().for_each(|values| values.extend([known("")]));
    }

    pub fn wrote(&mut self, path: String, network: bool) {
        if self.written.len() < MAX_NAMES || self.written.contains_key(&path) {
            *self.written.entry(path).or_default() |= network;
        }
    }

    /// Whether this command made the file, and from the network; with too many files to remember, any may be.
    pub fn made(&self, path: &str) -> Option<bool> {
        match self.written.get(path) {
            Some(network) => Some(*network),
            None => (self.written.len() >= MAX_NAMES).then_some(false),
        }
    }

    /// Keeps what is known as possible, and adds that it may be anything.
    pub fn lose(&mut self, name: &str) {
        if self.variables.len() >= MAX_NAMES && !self.variables.contains_key(name) {
            return;
        }
        let values = self.variables.entry(name.to_owned()).or_insert_with(|| BTreeSet::from([known("")]));
        values.insert(None);
    }

    pub fn lose_everything(&mut self) {
        let names: Vec<String> = self.variables.keys().cloned().collect();
        names.iter().for_each(|n| self.lose(n));
        self.lose_folder();
    }

    pub fn clone_variables(&self) -> Variables {
        Variables(self.variables.clone())
    }

    /// Each variable may also hold what it holds in `others`.
    pub fn join_variables(&mut self, Variables(others): Variables) {
        // Unset on one side reads as empty there, or as what the environment holds.
        for (name, mine) in &mut self.variables {
            if !others.contains_key(name) {
                mine.extend([known(""), None]);
            }
        }
        for (name, values) in others {
            let mine = self.variables.entry(name).or_insert_with(|| BTreeSet::from([known(""), None]));
            mine.extend(values);
            *mine = few(std::mem::take(mine));
        }
    }

    pub fn join_variable(&mut self, name: &str, Variables(others): &Variables) {
        let unset = BTreeSet::from([known(""), None]);
        let mine = self.variables.entry(name.to_owned()).or_insert_with(|| unset.clone());
        mine.extend(others.get(name).unwrap_or(&unset).iter().cloned());
        *mine = few(std::mem::take(mine));
    }

    /// After a branch that may or may not have run.
    pub fn join(&mut self, other: State) {
        self.join_variables(Variables(other.variables));
        self.join_folders(other.folders);
        if self.arguments != other.arguments {
            self.arguments = None;
        }
        for (name, function) in &mut self.functions {
            function.certain &= other.functions.get(name).is_some_and(|f| f.certain);
        }
        for (name, function) in other.functions {
            match self.functions.get_mut(&name) {
                Some(mine) => {
                    let new = function.bodies.into_iter().filter(|b| !mine.bodies.iter().any(|m| Rc::ptr_eq(m, b)));
                    mine.bodies.extend(new.collect::<Vec<_>>());
                }
                None => drop(self.functions.insert(name, Function { certain: false, ..function })),
            }
        }
        self.splits_strangely |= other.splits_strangely;
        other.written.into_iter().for_each(|(file, network)| self.wrote(file, network));
    }

    /// After a subshell: only what it wrote stays.
    pub fn keep_written(&mut self, other: &State) {
        other.written.iter().for_each(|(file, network)| self.wrote(file.clone(), *network));
    }
}

fn few<T: Ord>(values: BTreeSet<Option<T>>) -> BTreeSet<Option<T>> {
    if values.len() > MAX_VALUES {
        // The dangerous ones may be among those cut off, so unknown stays among those kept.
        values.into_iter().take(MAX_VALUES).chain([None]).collect()
    } else {
        values
    }
}
