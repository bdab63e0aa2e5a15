"""What is sent to an engine, and how."""
