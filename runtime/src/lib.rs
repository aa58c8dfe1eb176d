//! What every vmpool process stands on: clock, fenced lease, health endpoints, telemetry, shutdown
