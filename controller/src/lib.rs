//! The vmpool controller: observes pools, applies the engine's plans, reports
