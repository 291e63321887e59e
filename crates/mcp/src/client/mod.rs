//! Other servers as tools of the agent.
