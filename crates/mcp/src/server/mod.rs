//! jarvis as a server for other agents.
