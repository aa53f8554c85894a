"""Every action of a Pydantic AI agent as a truthful OpenTelemetry span."""
