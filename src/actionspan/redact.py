"""What a redactor is, and the two ready-made ones."""
