//! The Agent Client Protocol: jarvis in editors.
