//! HTTP: REST, server-sent events, and an endpoint in the form of OpenAI.
