"""Works on rows by key: groups them, looks them up in stores, and turns them into changes of a table."""
