"""What `check` and `test` print: text for people, and the forms that programs read."""
